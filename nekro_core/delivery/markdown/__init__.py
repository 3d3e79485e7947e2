"""Converts the Markdown of models for platforms with markup and for platforms without."""
