"""Measures speed and memory, and a baseline for each figure in the same run: `make bench`."""
