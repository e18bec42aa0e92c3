"""Tools are prompt: what a model reads of them, what that costs, and what will trip it. Knows no gateway."""
