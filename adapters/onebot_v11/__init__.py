"""QQ and whatever else speaks OneBot v11, through NapCat, LLBot, Lagrange and their like.

An implementation connects to ``/onebot/v11/ws`` (reverse WebSocket) with the access token, or the
bot connects to it (forward WebSocket, ``ONEBOT_V11_WS_URLS``).
Standard: https://github.com/botuniverse/onebot-11.
"""

from .adapter import OneBotV11Adapter
from .settings import SERVER_OPTIONS, create

__all__ = ["SERVER_OPTIONS", "OneBotV11Adapter", "create"]
