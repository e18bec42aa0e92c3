"""Mooring stands between every MCP client and every MCP server."""
