"""Loads, reloads and unloads plugins, and runs their hooks and tools."""
