"""Peers for the end-to-end tests: a scripted server, bad servers, raw clients, a running gateway."""
