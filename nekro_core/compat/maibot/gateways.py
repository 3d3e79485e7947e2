"""Message gateways: a plugin that is a platform's way in and out becomes an adapter of ours."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
from loguru import logger

from nekro_core.chat import (
    Author,
    ChatKey,
    ChatKeyError,
    ChatKind,
    ChatMessage,
    Delivery,
    DeliveryState,
    File,
    Forward,
    Image,
    Mention,
    Receipt,
    Record,
    Reply,
    Segment,
    Sender,
    Text,
    Video,
    Voice,
)
from nekro_core.compat.maibot.capabilities.call import CapabilityError
from nekro_core.compat.maibot.capabilities.send import segments
from nekro_core.compat.maibot.components import MaiBotComponent
from nekro_core.compat.maibot.plugin import MaiBotPlugin
from nekro_core.compat.maibot.wire import adapter_of, message_of, seconds_of
from nekro_core.delivery.adapter import Capabilities
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.faults import is_cancellation

if TYPE_CHECKING:
    from nekro_core.compat.maibot.host import MaiBotHost

_SEND_S = 60.0
_CAN = Capabilities(
    inline=frozenset({Text, Mention, Reply, Image}),
    alone=frozenset({Voice, Video, File, Forward}),
    text_length=4000,
)


class GatewayAdapter:
    """An `Adapter` whose platform is a plugin's gateway. Online while the plugin says so."""

    def __init__(self, host: "MaiBotHost", live: MaiBotPlugin, component: MaiBotComponent) -> None:
        self.name = ""
        self.account = ""
        self.scope = ""
        self.ready = False
        self.live = live
        self._host = host
        self._component = component

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        """See `Adapter`."""
        del chat_key
        return _CAN

    async def send(self, delivery: Delivery) -> Receipt:
        """See `Adapter`."""
        if not self.ready:
            return Receipt(state=DeliveryState.PENDING, reason="the gateway is not connected")
        if str(self._component.metadata.get("route_type")) not in ("send", "duplex"):
            return Receipt(state=DeliveryState.REJECTED, reason="the gateway only receives")
        record = Record(
            seq=0,
            chat_key=delivery.chat_key,
            author=Author.BOT,
            segments=delivery.segments,
            time=self._host.wall(),
        )
        message = await anyio.to_thread.run_sync(self._message, record)
        message["message_id"] = delivery.delivery_id
        given = {
            "message": message,
            "route": {"platform": self.name, "account_id": self.account, "scope": self.scope},
            "metadata": {},
        }
        try:
            value = await self.live.call(self._component, {}, given=given, limit_s=_SEND_S)
        except TimeoutError:
            return Receipt(
                state=DeliveryState.UNKNOWN, reason=f"the gateway took over {_SEND_S:g} s"
            )
        except BaseException as error:
            if is_cancellation(error):
                raise
            logger.exception("gateway {} of {}", self._component.name, self.live.plugin_id)
            return Receipt(state=DeliveryState.UNKNOWN, reason=f"the gateway failed: {error}")
        return _receipt(value)

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        """See `Adapter`."""
        del chat_key
        return frozenset({self.account} if self.account else ())

    async def start(self) -> None:
        """The plugin starts its own connections."""

    async def aclose(self) -> None:
        """See `Adapter`."""
        self.ready = False

    def _message(self, record: Record) -> dict[str, Any]:
        return message_of(record, adapter=self.name, account=self.account, binary=True)


async def update_state(host: "MaiBotHost", live: MaiBotPlugin, payload: Mapping[str, Any]) -> bool:
    """A gateway says whether it is connected, and as whom. False where that cannot be."""
    component = _component(live, payload)
    if component is None:
        return False
    adapter = host.gateways.get((live.plugin_id, component.name))
    platform = str(payload.get("platform") or component.metadata.get("platform") or "").strip()
    account = str(payload.get("account_id") or component.metadata.get("account_id") or "").strip()
    if payload.get("ready") is not True:
        if adapter is not None:
            adapter.ready = False
        return adapter is not None
    if adapter is None:
        name = _name(platform)
        if not name or not account:
            logger.error(
                "gateway {} of {}: it needs a platform and an account_id",
                component.name,
                live.plugin_id,
            )
            return False
        if name in host.ports.adapters:
            logger.error(
                "gateway {} of {}: {} is served already", component.name, live.plugin_id, name
            )
            return False
        adapter = GatewayAdapter(host, live, component)
        adapter.name, adapter.account = name, account
        await host.ports.store.accounts.bind(name, account)
        host.ports.adapters[name] = adapter
        host.gateways[live.plugin_id, component.name] = adapter
    adapter.scope = str(payload.get("scope") or component.metadata.get("scope") or "")
    adapter.ready = True
    host.online()
    return True


async def route_message(host: "MaiBotHost", live: MaiBotPlugin, payload: Mapping[str, Any]) -> bool:
    """A gateway brings a message in. False where it is not connected, or the message is none."""
    component = _component(live, payload)
    adapter = host.gateways.get((live.plugin_id, component.name)) if component else None
    given = payload.get("message")
    if adapter is None or not adapter.ready or not isinstance(given, Mapping):
        return False
    try:
        message = await _inbound(host, adapter, given, payload)
    except (ChatKeyError, CapabilityError, ValueError) as error:
        logger.error("gateway of {}: the message is not taken: {}", live.plugin_id, error)
        return False
    if host.ports.inbound is None:
        return False
    await host.ports.inbound(message)
    return True


async def close_gateways(host: "MaiBotHost", live: MaiBotPlugin) -> None:
    """A plugin's platforms are gone; its accounts and chats stay known."""
    for key in [key for key in host.gateways if key[0] == live.plugin_id]:
        adapter = host.gateways.pop(key)
        await adapter.aclose()
        if host.ports.adapters.get(adapter.name) is adapter:
            del host.ports.adapters[adapter.name]


async def _inbound(
    host: "MaiBotHost",
    adapter: GatewayAdapter,
    given: Mapping[str, Any],
    payload: Mapping[str, Any],
) -> ChatMessage:
    info = given.get("message_info")
    info = info if isinstance(info, Mapping) else {}
    user = info.get("user_info")
    group = info.get("group_info")
    if not isinstance(user, Mapping) or not user.get("user_id"):
        raise ValueError("message_info.user_info.user_id is missing")
    in_group = isinstance(group, Mapping) and bool(group.get("group_id"))
    native = str(group["group_id"] if in_group and isinstance(group, Mapping) else user["user_id"])
    kind = ChatKind.GROUP if in_group else ChatKind.PRIVATE
    key = ChatKey(host.instance_of(adapter.name, adapter.account), kind, native)
    pieces: list[Segment] = []
    raw = given.get("raw_message")
    if isinstance(raw, list) and raw:
        services = host.ports.services
        # What a platform delivers is fetched as from any adapter.
        services = replace(services, media=host.ports.received or services.media)
        pieces = await segments(AgentCtx(services=services, chat=key), raw)
    elif given.get("processed_plain_text"):
        pieces = [Text(str(given["processed_plain_text"]))]
    if not pieces:
        raise ValueError("the message has neither raw_message nor processed_plain_text")
    own = {each.user_id for each in pieces if isinstance(each, Mention)}
    number = payload.get("external_message_id") or given.get("message_id")
    meant = given.get("is_at") is True or given.get("is_mentioned") is True
    return ChatMessage(
        chat_key=key,
        message_id=str(number or payload.get("dedupe_key") or f"gateway-{time.time_ns()}"),
        sender=Sender(str(user["user_id"]), str(user.get("user_nickname") or "")),
        segments=tuple(pieces),
        time=seconds_of(given.get("timestamp")) or host.wall(),
        account=adapter.account,
        to_bot=not in_group or meant or adapter.account in own,
    )


def _component(live: MaiBotPlugin, payload: Mapping[str, Any]) -> MaiBotComponent | None:
    wanted = str(payload.get("gateway_name") or "")
    for each in live.of_type("MESSAGE_GATEWAY"):
        if wanted in (each.name, each.handler):
            return each
    return None


def _name(platform: str) -> str:
    name = adapter_of(platform)
    return "".join(
        each if each.isascii() and (each.isalnum() or each in "_.") else "_" for each in name
    )


def _receipt(value: Any) -> Receipt:
    """What a send handler returned: a truth, a text (the platform's id), or a dict."""
    if isinstance(value, Mapping):
        number = value.get("external_message_id") or value.get("message_id") or ""
        if value.get("success", value.get("sent", True)):
            return Receipt(state=DeliveryState.SENT, message_id=str(number))
        reason = str(value.get("error") or value.get("message") or "the gateway said no")
        return Receipt(state=DeliveryState.REJECTED, reason=reason)
    if value is False:
        return Receipt(state=DeliveryState.REJECTED, reason="the gateway said no")
    return Receipt(state=DeliveryState.SENT, message_id=value if isinstance(value, str) else "")
