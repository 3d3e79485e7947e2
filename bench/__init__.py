"""Speed and memory, measured beside the floor of the same run: `make bench`."""
