"""Telegram: https://core.telegram.org/bots/api.

The bot reads updates by long polling and confirms each when it is stored. So a crash loses nothing,
and the bot needs no public address. Texts are sent with entities, never as markup.
"""

from .adapter import create

__all__ = ["create"]
