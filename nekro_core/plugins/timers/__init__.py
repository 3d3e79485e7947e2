"""The functions for timers that plugins call."""
