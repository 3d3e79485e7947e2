"""The other sides of the platforms, recorded: no network, the stock adapters' own code.

Each is imported when it is asked for: a stock adapter takes up to a second.
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
    """The other side of a platform."""
    module = importlib.import_module(f"{__name__}.{name}")
    found: type[Peer] = getattr(module, _CLASSES[name])
    return found


__all__ = ["NAMES", "Peer", "peer_of"]
