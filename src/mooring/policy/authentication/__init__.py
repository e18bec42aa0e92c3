"""Who calls: API keys, tokens of an OpenID provider, and introspection."""
