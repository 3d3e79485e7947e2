"""Measures speed and memory, each beside a baseline measured in the same run: `make bench`."""
