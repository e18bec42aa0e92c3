"""Running servers: what is wanted, what runs, and how the one follows the other."""
