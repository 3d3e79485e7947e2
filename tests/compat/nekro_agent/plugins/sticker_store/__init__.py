"""Stickers are stored as files and found by the meaning of their descriptions."""

from . import commands, methods  # noqa: F401
from .base import plugin

__all__ = ["plugin"]
