"""One module a platform: what it is like, and ``create``."""
