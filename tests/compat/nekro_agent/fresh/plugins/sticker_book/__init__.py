"""Sticker book - a package plugin"""

from . import commands  # noqa: F401  (register)
from .core import compose
from .core.storage import StickerDB
from .methods import *  # noqa: F403
from .plugin import config, plugin

__all__ = ["plugin"]
