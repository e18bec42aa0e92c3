"""Servers from functions."""
