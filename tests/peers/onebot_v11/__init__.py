"""A fake OneBot v11 implementation. The bot's adapter connects to it, or it connects to the bot's
adapter.

Where implementations differ, it behaves as NapCat does. The test in `tests/peers/koishi/` checks it
with Koishi, a framework by other authors.
To use it by hand: ``python -m tests.peers.onebot_v11 --help``.
"""

from tests.peers.onebot_v11.answers import Abort, Answer, Async, Failed, Late, Silence
from tests.peers.onebot_v11.calls import Call, WireFrame
from tests.peers.onebot_v11.messages import at, cq_text, image, record, reply, text
from tests.peers.onebot_v11.peer import OneBotPeer

__all__ = [
    "Abort",
    "Answer",
    "Async",
    "Call",
    "Failed",
    "Late",
    "OneBotPeer",
    "Silence",
    "WireFrame",
    "at",
    "cq_text",
    "image",
    "record",
    "reply",
    "text",
]
