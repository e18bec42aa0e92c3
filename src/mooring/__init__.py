"""Mooring stands between every MCP client and every MCP server."""

__version__ = "0.1.0"
