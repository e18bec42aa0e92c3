"""The composition root: a configuration becomes one running gateway."""
