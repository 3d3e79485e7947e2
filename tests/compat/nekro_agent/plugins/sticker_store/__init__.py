"""Stickers: kept as files, found by the meaning of their descriptions."""

from . import commands, methods  # noqa: F401
from .base import plugin

__all__ = ["plugin"]
