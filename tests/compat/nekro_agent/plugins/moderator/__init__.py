"""Moderation on OneBot: NoneBot's own objects, matchers of the older way, files in a package."""

from .plugin import plugin
from . import commands, methods  # noqa

__all__ = ["plugin"]
