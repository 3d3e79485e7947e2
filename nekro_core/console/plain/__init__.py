"""Serves the HTTP API of turns, plugins, tools and undelivered messages, and old addresses."""
