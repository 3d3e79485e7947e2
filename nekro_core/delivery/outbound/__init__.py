"""Sends messages: states, splitting, order, retries."""
