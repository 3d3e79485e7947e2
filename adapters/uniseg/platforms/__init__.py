"""Holds one module for each platform, with its `Platform` class and ``create``."""
