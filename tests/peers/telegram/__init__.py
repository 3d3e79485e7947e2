"""A fake Telegram Bot API on 127.0.0.1, written from https://core.telegram.org/bots/api."""

from tests.peers.telegram.account import PNG, Call, Upload
from tests.peers.telegram.answers import Abort, Failed, Late, Silence
from tests.peers.telegram.peer import TOKEN, TelegramPeer

__all__ = [
    "PNG",
    "TOKEN",
    "Abort",
    "Call",
    "Failed",
    "Late",
    "Silence",
    "TelegramPeer",
    "Upload",
]
