"""The configuration file: its schema, its loading, and the other formats it may be written in."""
