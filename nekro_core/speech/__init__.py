"""Voices behind one protocol."""
