"""Timers and recurring functions as plugins use them."""
