"""Registries: who publishes which servers, and what it takes to run one."""
