"""Fake platforms for NoneBot's own adapters. They record requests and use no network.

The module of a platform is imported only when a test asks for it, because importing its NoneBot
adapter takes up to a second.
"""

import importlib

from tests.adapters.uniseg.peers.peer import Peer

_CLASSES = {
    "console": "Console",
    "discord": "Discord",
    "feishu": "Feishu",
    "kook": "Kook",
    "milky": "Milky",
    "onebot_v12": "OneBotV12",
    "qq": "QQ",
    "satori": "Satori",
}
NAMES = tuple(_CLASSES)


def peer_of(name: str) -> type[Peer]:
    """Return the class of a fake platform."""
    module = importlib.import_module(f"{__name__}.{name}")
    found: type[Peer] = getattr(module, _CLASSES[name])
    return found


__all__ = ["NAMES", "Peer", "peer_of"]
