"""The process runtime: a server as a bubblewrapped process that sees what its profile names, and no more."""
