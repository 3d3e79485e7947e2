"""Erases a person's data in all rooms that store such data."""
