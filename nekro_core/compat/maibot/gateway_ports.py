"""Defines the parts of the bot that plugins' message gateways use. `gateways` is imported when the
first plugin is loaded, and this module at each start."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from nekro_core.chat import ChatMessage
from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.media_contract import MediaKeeper


def _ignore() -> None:
    """The default of ``GatewayPorts.on_online``: does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPorts:
    """The parts of the bot that gateways use.

    The adapter of a gateway is added to ``adapters`` under the name in its `GatewayPlace`. It is
    not added if the place is shared, because then another adapter already sends to the same chats.
    ``own_adapters`` are the names of the bot's own adapters. If a gateway is for one of their
    platforms, its adapter gets another name. ``inbound`` accepts the messages from
    gateways; if it is None, the messages are refused. ``on_online`` is called when a gateway
    connects. ``received_media`` stores the media of the messages; if it is None, ``Services.media``
    stores them.
    """

    adapters: dict[str, Adapter] = field(default_factory=dict)
    own_adapters: Collection[str] = ()
    inbound: Callable[[ChatMessage], Awaitable[object]] | None = None
    on_online: Callable[[], None] = _ignore
    received_media: MediaKeeper | None = None
