"""Makes an `Adapter` for a plugin with a message gateway, which connects the bot to a chat
platform."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.formats.messages import adapter_of, message_of, seconds_of
from nekro_core.compat.maibot.formats.segments import received_segments
from nekro_core.compat.maibot.plugin.components import MaiBotComponent
from nekro_core.compat.maibot.plugin.loaded import MaiBotPlugin
from nekro_core.delivery.adapter import Adapter, Capabilities
from nekro_core.delivery.media_contract import MediaKeeper
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.faults import is_cancellation

_SEND_S = 60.0
_CAN = Capabilities(
    inline=frozenset({Text, Mention, Reply, Image}),
    alone=frozenset({Voice, Video, File, Forward}),
    text_length=4000,
)


def _ignore() -> None:
    """Do nothing when a platform comes online."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPorts:
    """The parts of the bot that gateways use.

    The adapter of a gateway is added to ``adapters``, under the platform's name. ``inbound``
    accepts the messages from gateways; if it is None, they are refused. ``on_online`` is called
    when a gateway connects. ``received_media`` stores the media of the messages; if it is None,
    ``Services.media`` stores them.
    """

    adapters: dict[str, Adapter] = field(default_factory=dict)
    inbound: Callable[[ChatMessage], Awaitable[object]] | None = None
    on_online: Callable[[], None] = _ignore
    received_media: MediaKeeper | None = None


class GatewayAdapter:
    """An `Adapter` that sends through the gateway of a plugin. The plugin reports whether it is
    online."""

    def __init__(
        self,
        name: str,
        account: str,
        *,
        plugin: MaiBotPlugin,
        component: MaiBotComponent,
        bot: BotView,
    ) -> None:
        self.name = name
        self.account = account
        self.scope = ""
        self.ready = False
        self._plugin = plugin
        self._component = component
        self._bot = bot

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
            time=self._bot.wall(),
        )
        message = await anyio.to_thread.run_sync(self._message, record)
        message["message_id"] = delivery.delivery_id
        given = {
            "message": message,
            "route": {"platform": self.name, "account_id": self.account, "scope": self.scope},
            "metadata": {},
        }
        try:
            value = await self._plugin.call(self._component, {}, given=given, limit_s=_SEND_S)
        except TimeoutError:
            return Receipt(
                state=DeliveryState.UNKNOWN, reason=f"the gateway took over {_SEND_S:g} s"
            )
        except BaseException as error:
            if is_cancellation(error):
                raise
            logger.exception("gateway {} of {}", self._component.name, self._plugin.plugin_id)
            return Receipt(state=DeliveryState.UNKNOWN, reason=f"the gateway failed: {error}")
        return _receipt(value)

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        """See `Adapter`."""
        del chat_key
        return frozenset({self.account} if self.account else ())

    async def start(self) -> None:
        """Do nothing, because the plugin makes the connection."""

    async def aclose(self) -> None:
        """See `Adapter`."""
        self.ready = False

    def _message(self, record: Record) -> dict[str, Any]:
        facts = self._bot.facts_of_chats
        return message_of(
            record,
            adapter=self.name,
            account=self.account,
            group_name=facts.group_name(record.chat_key),
            inherited=facts.config(record.chat_key),
            binary=True,
        )


class Gateways:
    """The gateways of all plugins. Plugins report here whether a gateway is connected and which
    messages it has received."""

    def __init__(self, bot: BotView, ports: GatewayPorts) -> None:
        self._bot = bot
        self._ports = ports
        self._adapters: dict[tuple[str, str], GatewayAdapter] = {}

    async def update_state(self, plugin: MaiBotPlugin, payload: Mapping[str, Any]) -> bool:
        """Handle a gateway's report that it is connected, or not connected any more.

        Returns:
            True if the report was accepted. False if the plugin has no such gateway, if the gateway
            cannot serve the platform, or if a gateway that never connected reports that it is not
            ready.
        """
        component = _component(plugin, payload)
        if component is None:
            return False
        adapter = self._adapters.get((plugin.plugin_id, component.name))
        if payload.get("ready") is not True:
            if adapter is not None:
                adapter.ready = False
            return adapter is not None
        if adapter is None:
            adapter = await self._connect(plugin, component, payload)
            if adapter is None:
                return False
        adapter.scope = str(payload.get("scope") or component.metadata.get("scope") or "")
        adapter.ready = True
        self._ports.on_online()
        return True

    async def _connect(
        self, plugin: MaiBotPlugin, component: MaiBotComponent, payload: Mapping[str, Any]
    ) -> GatewayAdapter | None:
        metadata, about = component.metadata, f"gateway {component.name} of {plugin.plugin_id}"
        name = _name(str(payload.get("platform") or metadata.get("platform") or "").strip())
        account = str(payload.get("account_id") or metadata.get("account_id") or "").strip()
        if not name or not account:
            logger.error("{}: the platform or the account_id is missing", about)
            return None
        if name in self._ports.adapters:
            logger.error("{}: another adapter serves {} already", about, name)
            return None
        adapter = GatewayAdapter(name, account, plugin=plugin, component=component, bot=self._bot)
        await self._bot.store.accounts.bind(name, account)
        self._ports.adapters[name] = adapter
        self._adapters[plugin.plugin_id, component.name] = adapter
        return adapter

    async def route_message(self, plugin: MaiBotPlugin, payload: Mapping[str, Any]) -> bool:
        """Handle a message that a gateway has received.

        Returns:
            True if the message was accepted. False if the gateway is not connected, the message is
            invalid, or there is no ``inbound``.
        """
        component = _component(plugin, payload)
        adapter = self._adapters.get((plugin.plugin_id, component.name)) if component else None
        given = payload.get("message")
        if adapter is None or not adapter.ready or not isinstance(given, Mapping):
            return False
        try:
            message = await self._message(adapter, given, payload)
        except (ChatKeyError, ValueError) as error:
            logger.error("gateway of {}: the message is refused: {}", plugin.plugin_id, error)
            return False
        if self._ports.inbound is None:
            return False
        await self._ports.inbound(message)
        return True

    async def close(self, plugin: MaiBotPlugin) -> None:
        """Remove the adapters of a plugin's gateways. Their accounts and chats stay in the
        database."""
        for key in [key for key in self._adapters if key[0] == plugin.plugin_id]:
            adapter = self._adapters.pop(key)
            await adapter.aclose()
            if self._ports.adapters.get(adapter.name) is adapter:
                del self._ports.adapters[adapter.name]

    async def _message(
        self, adapter: GatewayAdapter, given: Mapping[str, Any], payload: Mapping[str, Any]
    ) -> ChatMessage:
        info = given.get("message_info")
        info = info if isinstance(info, Mapping) else {}
        user = info.get("user_info")
        group = info.get("group_info")
        if not isinstance(user, Mapping) or not user.get("user_id"):
            raise ValueError("message_info.user_info.user_id is missing")
        in_group = isinstance(group, Mapping) and bool(group.get("group_id"))
        native = str(
            group["group_id"] if in_group and isinstance(group, Mapping) else user["user_id"]
        )
        kind = ChatKind.GROUP if in_group else ChatKind.PRIVATE
        key = ChatKey(self._bot.instance_of(adapter.name, adapter.account), kind, native)
        pieces: list[Segment] = []
        raw = given.get("raw_message")
        if isinstance(raw, list) and raw:
            services = self._bot.services
            # Media of a received message are fetched in the same way as for any other adapter.
            services = replace(services, media=self._ports.received_media or services.media)
            pieces = await received_segments(AgentCtx(services=services, chat=key), raw)
        elif given.get("processed_plain_text"):
            pieces = [Text(str(given["processed_plain_text"]))]
        if not pieces:
            raise ValueError("the message has neither raw_message nor processed_plain_text")
        own = {each.user_id for each in pieces if isinstance(each, Mention)}
        facts = self._bot.facts_of_chats
        if in_group and isinstance(group, Mapping):
            facts.set_group_name(key, str(group.get("group_name") or ""))
        name = user.get("user_cardname") if in_group else ""
        number = payload.get("external_message_id") or given.get("message_id")
        number = str(number or payload.get("dedupe_key") or f"gateway-{time.time_ns()}")
        facts.set_config(key, number, info.get("additional_config"))
        meant = given.get("is_at") is True or given.get("is_mentioned") is True
        return ChatMessage(
            chat_key=key,
            message_id=number,
            sender=Sender(str(user["user_id"]), str(name or user.get("user_nickname") or "")),
            segments=tuple(pieces),
            time=seconds_of(given.get("timestamp")) or self._bot.wall(),
            account=adapter.account,
            to_bot=not in_group or meant or adapter.account in own,
        )


def _component(plugin: MaiBotPlugin, payload: Mapping[str, Any]) -> MaiBotComponent | None:
    wanted = str(payload.get("gateway_name") or "")
    for each in plugin.of_type("MESSAGE_GATEWAY"):
        if wanted in (each.name, each.handler):
            return each
    return None


def _name(platform: str) -> str:
    name = adapter_of(platform)
    return "".join(
        each if each.isascii() and (each.isalnum() or each in "_.") else "_" for each in name
    )


def _receipt(value: Any) -> Receipt:
    """Convert the return value of a send handler to a receipt. The value is a bool, a text (the
    platform's id of the message), or a dict."""
    if isinstance(value, Mapping):
        number = value.get("external_message_id") or value.get("message_id") or ""
        if value.get("success", value.get("sent", True)):
            return Receipt(state=DeliveryState.SENT, message_id=str(number))
        reason = str(value.get("error") or value.get("message") or "the gateway said no")
        return Receipt(state=DeliveryState.REJECTED, reason=reason)
    if value is False:
        return Receipt(state=DeliveryState.REJECTED, reason="the gateway said no")
    return Receipt(state=DeliveryState.SENT, message_id=value if isinstance(value, str) else "")
