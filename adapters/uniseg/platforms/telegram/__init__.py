"""Telegram: https://core.telegram.org/bots/api.

The bot asks for what happened (long polling) and confirms it once it is stored, so nothing is lost
by a crash and nothing needs a public address. Texts go out with entities, never as markup.
"""

from .adapter import create

__all__ = ["create"]
