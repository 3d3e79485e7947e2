"""Loads plugins, runs what they declare, reloads and unloads them."""
