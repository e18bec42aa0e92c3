"""What people and programs touch: the MCP endpoint, the stdio bridge, the control API, the command line."""
