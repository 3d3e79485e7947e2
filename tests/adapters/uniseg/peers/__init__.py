"""The other sides of the platforms, recorded: no network, the stock adapters' own code."""

from tests.adapters.uniseg.peers.console import Console
from tests.adapters.uniseg.peers.discord import Discord
from tests.adapters.uniseg.peers.feishu import Feishu
from tests.adapters.uniseg.peers.kook import Kook
from tests.adapters.uniseg.peers.milky import Milky
from tests.adapters.uniseg.peers.onebot_v12 import OneBotV12
from tests.adapters.uniseg.peers.peer import Peer
from tests.adapters.uniseg.peers.qq import QQ
from tests.adapters.uniseg.peers.satori import Satori

PEERS: dict[str, type[Peer]] = {
    "console": Console,
    "discord": Discord,
    "feishu": Feishu,
    "kook": Kook,
    "milky": Milky,
    "onebot_v12": OneBotV12,
    "qq": QQ,
    "satori": Satori,
}

__all__ = ["PEERS", "Peer"]
