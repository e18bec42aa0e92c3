"""Everything that can be done with a running gateway, over HTTP at `/api/v1`."""
