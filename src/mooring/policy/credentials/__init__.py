"""What we show to servers: credentials of our own, never those of our callers."""
