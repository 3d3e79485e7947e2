"""Summarizes the messages that are older than those that a prompt shows."""
