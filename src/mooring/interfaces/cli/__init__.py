"""The command line: parse, call, print. Modules are imported only by the command that needs them."""
