"""Counts what the bot does, for monitoring."""
