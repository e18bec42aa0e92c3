"""Secrets: kept encrypted or by somebody else, and handed to a workload when it starts."""
