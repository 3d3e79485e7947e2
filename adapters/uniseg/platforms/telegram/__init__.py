"""Telegram: https://core.telegram.org/bots/api.

The bot reads updates by long polling, which needs no public address. It confirms an update after it
has stored the update, so a crash loses no message. Texts are sent with entities, never as markup.
"""

from .adapter import create

__all__ = ["create"]
