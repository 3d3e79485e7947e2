"""Loads and runs plugins, and holds everything that plugins use."""
