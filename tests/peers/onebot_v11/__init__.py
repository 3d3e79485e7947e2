"""A fake OneBot v11 implementation, the other side of our adapter's wire, in both directions.

It behaves as NapCat does where implementations differ. Koishi, an application by other people,
certifies it: see `tests/peers/koishi/`. By hand: ``python -m tests.peers.onebot_v11 --help``.
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
