"""Summaries of what was said before the messages that a prompt shows."""
