"""Moderation on OneBot, with NoneBot's objects and matchers, as a package of several files."""

from .plugin import plugin
from . import commands, methods  # noqa

__all__ = ["plugin"]
