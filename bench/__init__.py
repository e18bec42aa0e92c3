"""Compares Mooring with nginx, FastMCP's proxy and mcp-proxy on this machine: `python -m bench`."""
