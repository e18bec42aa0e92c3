"""Tool definitions that stay what they were: pinned per session, locked for everybody, and cleaned."""
