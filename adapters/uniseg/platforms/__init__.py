"""Holds one module for each platform, with a `Platform` subclass and the function ``create``."""
