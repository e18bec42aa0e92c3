"""Raised inside the Markdown writer when a node does not fit its usual syntax."""


class Inexpressible(Exception):
    """This node must be written in the general form."""
