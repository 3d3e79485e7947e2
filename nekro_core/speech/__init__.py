"""Turns text into voice and voice into text, with one interface for several engines."""
