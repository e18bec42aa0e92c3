"""Numbers and traces about what happens: off unless configured, and free while off."""
