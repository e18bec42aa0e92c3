"""The official conformance suite, run directly against a fixture and through the gateway."""
