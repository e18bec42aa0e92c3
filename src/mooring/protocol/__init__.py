"""The protocol without I/O: bytes and values in, values out; no clock, no await, no sockets, no logging."""
