"""Makes an `Adapter` for a plugin with a message gateway, which connects the bot to a chat
platform."""

import time
from collections.abc import Mapping
from dataclasses import replace
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
from nekro_core.compat.maibot.formats.messages import (
    adapters_of,
    message_of,
    platform_of,
    seconds_of,
)
from nekro_core.compat.maibot.formats.segments import received_segments
from nekro_core.compat.maibot.gateway_place import (
    GatewayPlace,
    GatewayRefused,
    choose_place,
    clean_name,
)
from nekro_core.compat.maibot.gateway_ports import GatewayPorts
from nekro_core.compat.maibot.plugin.components import MaiBotComponent
from nekro_core.compat.maibot.plugin.loaded import MaiBotPlugin
from nekro_core.delivery.adapter import Capabilities
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.faults import is_cancellation

_SENDING = ("send", "duplex")
"""The types of gateways that can send."""
_SEND_S = 60.0
_CAN = Capabilities(
    inline=frozenset({Text, Mention, Reply, Image}),
    alone=frozenset({Voice, Video, File, Forward}),
    text_length=4000,
)


class GatewayAdapter:
    """An `Adapter` that sends through the gateway of a plugin. The plugin reports whether the
    gateway is online. ``reported`` is the account that the plugin reports; it may be empty."""

    def __init__(
        self,
        place: GatewayPlace,
        reported: str,
        *,
        plugin: MaiBotPlugin,
        component: MaiBotComponent,
        bot: BotView,
    ) -> None:
        self.name = place.adapter
        self.account = place.account
        self.place = place
        self.reported = reported
        self.state: Mapping[str, Any] = {}
        """The newest report in which the gateway said that it is connected."""
        self.ready = False
        self._plugin = plugin
        self._component = component
        self._bot = bot

    @property
    def sends(self) -> bool:
        """True if the gateway can send."""
        return str(self._component.metadata.get("route_type")) in _SENDING

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        """See `Adapter`."""
        del chat_key
        return _CAN

    async def send(self, delivery: Delivery) -> Receipt:
        """See `Adapter`."""
        if not self.ready:
            return Receipt(state=DeliveryState.PENDING, reason="the gateway is not connected")
        if not self.sends:
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
            "route": {
                "platform": platform_of(self.name),
                "account_id": self.reported,
                "scope": str(
                    self.state.get("scope") or self._component.metadata.get("scope") or ""
                ),
            },
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
        return frozenset({self.reported} if self.reported else ())

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
        try:
            adapter = await self._placed(plugin, component, payload)
        except GatewayRefused as error:
            logger.error("gateway {} of {}: {}", component.name, plugin.plugin_id, error)
            if adapter is not None:
                adapter.ready = False
            return False
        adapter.state, adapter.ready = payload, True
        self._ports.on_online()
        return True

    async def _placed(
        self, plugin: MaiBotPlugin, component: MaiBotComponent, state: Mapping[str, Any]
    ) -> GatewayAdapter:
        """Return the adapter of a gateway. A new adapter is made if the gateway's place is not the
        same as before, for example because an account of the bot has connected since then. Raises
        `GatewayRefused`."""
        metadata, accounts = component.metadata, self._bot.store.accounts
        platform = str(state.get("platform") or metadata.get("platform") or "").strip()
        reported = str(state.get("account_id") or metadata.get("account_id") or "").strip()
        key = (plugin.plugin_id, component.name)
        known = self._adapters.get(key)
        place = choose_place(
            platform,
            reported,
            gateway=component.name,
            only_receives=str(metadata.get("route_type")) not in _SENDING,
            own_adapters=self._ports.own_adapters,
            running=[
                name
                for name, each in self._ports.adapters.items()
                if not isinstance(each, GatewayAdapter)
            ],
            accounts={name: accounts.instances(name) for name in _adapters(platform)},
            serving=self._sender_to(platform, known),
        )
        if known is not None and (known.place, known.reported) == (place, reported):
            return known
        adapter = GatewayAdapter(place, reported, plugin=plugin, component=component, bot=self._bot)
        await accounts.bind(place.adapter, place.account)
        if known is not None:
            adapter.state, adapter.ready = known.state, known.ready
            await self._remove(known)
        if not place.shared:
            self._ports.adapters[place.adapter] = adapter
        self._adapters[key] = adapter
        return adapter

    def _sender_to(self, platform: str, asking: GatewayAdapter | None) -> str:
        """The account of another gateway that sends to a platform; empty if there is none."""
        serving = [self._ports.adapters.get(name) for name in _adapters(platform)]
        for each in serving:
            if isinstance(each, GatewayAdapter) and each.sends and each is not asking:
                return each.account
        return ""

    async def _remove(self, adapter: GatewayAdapter) -> None:
        await adapter.aclose()
        if self._ports.adapters.get(adapter.name) is adapter:
            del self._ports.adapters[adapter.name]

    async def route_message(self, plugin: MaiBotPlugin, payload: Mapping[str, Any]) -> bool:
        """Handle a message that a gateway has received.

        Returns:
            True if the message was accepted. False if the gateway is not connected, the message is
            invalid, or there is no ``inbound``.
        """
        component = _component(plugin, payload)
        adapter = self._adapters.get((plugin.plugin_id, component.name)) if component else None
        given = payload.get("message")
        if component is None or adapter is None or not adapter.ready:
            return False
        if not isinstance(given, Mapping):
            return False
        try:
            if adapter.place.beside:
                adapter = await self._placed(plugin, component, adapter.state)
            message = await self._message(adapter, given, payload)
        except (ChatKeyError, GatewayRefused, ValueError) as error:
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
            await self._remove(self._adapters.pop(key))

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
        more = info.get("additional_config")
        more = more if isinstance(more, Mapping) else {}
        # A plugin may also report a message that the bot's own account sent. Then the private chat
        # is that of the receiver, and not that of the sender.
        native = str(more.get("platform_io_target_user_id") or user["user_id"])
        if in_group and isinstance(group, Mapping):
            native = str(group["group_id"])
        kind = ChatKind.GROUP if in_group else ChatKind.PRIVATE
        key = ChatKey(self._bot.instance_of(adapter.name, adapter.account), kind, native)
        pieces: list[Segment] = []
        raw = given.get("raw_message")
        if isinstance(raw, list) and raw:
            services = self._bot.services
            # The media are fetched in the same way as those of a message from any other adapter.
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
            # MaiBot records notices and does not answer them.
            answered_elsewhere=given.get("is_notify") is True,
        )


def _component(plugin: MaiBotPlugin, payload: Mapping[str, Any]) -> MaiBotComponent | None:
    wanted = str(payload.get("gateway_name") or "")
    for each in plugin.of_type("MESSAGE_GATEWAY"):
        if wanted in (each.name, each.handler):
            return each
    return None


def _adapters(platform: str) -> tuple[str, ...]:
    return tuple(map(clean_name, adapters_of(platform)))


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
