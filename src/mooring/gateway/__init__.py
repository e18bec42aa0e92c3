"""From a client exchange to an upstream session and back: routing, sharing, fan-out, translation."""
