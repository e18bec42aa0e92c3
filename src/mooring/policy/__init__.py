"""Who may call what, how often, and proof of it: the guard, as middlewares of the gateway's chain."""
