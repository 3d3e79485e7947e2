"""Connects to QQ through an implementation of OneBot v11, such as NapCat, LLBot or Lagrange.

Either the implementation connects to ``/onebot/v11/ws`` with the access token (reverse WebSocket),
or the bot connects to the implementation (forward WebSocket, ``ONEBOT_V11_WS_URLS``).
Standard: https://github.com/botuniverse/onebot-11.
"""

from .adapter import OneBotV11Adapter
from .settings import SERVER_OPTIONS, create

__all__ = ["SERVER_OPTIONS", "OneBotV11Adapter", "create"]
