"""Servers from other programs' files, made into ours, with their secrets taken out of the open."""
