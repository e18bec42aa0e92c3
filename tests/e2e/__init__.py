"""Whole conversations: real clients, a real gateway, real servers."""
