"""A Telegram Bot API on loopback: https://core.telegram.org/bots/api as bots see it."""

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
