"""Where bytes move: the HTTP listener, the HTTP client pool, child process pipes, event streams."""
