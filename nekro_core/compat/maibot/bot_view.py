"""Gives the bot's settings, chats, accounts and messages in MaiBot's form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import anyio

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import Author, ChatKey, ChatMessage, Record
from nekro_core.compat.maibot.chat_facts import ChatFacts
from nekro_core.compat.maibot.formats.messages import adapters_of, message_of, stream_of
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import Services
from nekro_core.store import Store

_ANSWERED_AMONG = 20
"""How many messages are searched for the message that a turn answers."""
_PAGES = 2
"""At most this many pages are drawn at once. Each page has its own Chromium of about 300 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BotView:
    """The data of the bot that capabilities and hooks read.

    ``agent`` has the bot's names (the first is its nickname), its persona and its time zone.
    ``wall`` returns seconds since 1970. ``talk_values`` has the values that plugins set with
    ``ctx.frequency``, by stream id. Only plugins read these values; they have no other effect.
    ``facts_of_chats`` has the names of groups and the values from plugins' message gateways.
    ``pages`` limits how many pages of HTML are drawn at once.
    """

    services: Services
    store: Store
    wall: Callable[[], float]
    agent: AgentSettings = field(default_factory=AgentSettings)
    talk_values: dict[str, float] = field(default_factory=dict)
    facts_of_chats: ChatFacts = field(default_factory=ChatFacts)
    pages: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_PAGES))

    @property
    def persona(self) -> str:
        """The bot's persona."""
        return self.agent.persona

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of times in texts. If it is None, the time zone of the machine is used."""
        return ZoneInfo(self.agent.timezone) if self.agent.timezone else None

    def facts(self) -> Mapping[str, Any]:
        """The MaiBot settings that plugins read, with values from the bot's settings."""
        names = [*self.agent.names]
        return {
            "bot": {
                "nickname": names[0] if names else "",
                "alias_names": names[1:],
                "platform": "qq",
                "qq_account": next(
                    (
                        account
                        for adapter in adapters_of("qq")
                        for account in self.store.accounts.instances(adapter)
                    ),
                    "",
                ),
            },
            "personality": {"personality": self.persona, "reply_style": ""},
        }

    def instance_of(self, adapter: str, account: str) -> str:
        """The instance of an adapter's account; empty if the account is unknown. An empty
        ``account`` means the adapter's first instance."""
        instances = self.store.accounts.instances(adapter)
        return instances.get(account, "") if account else next(iter(instances.values()), "")

    def instance_on(self, platform: str, account: str = "") -> str:
        """Return the instance of an account. ``platform`` is MaiBot's name for the account's
        platform. If the bot's own adapter and a plugin's gateway both have such an account, the
        bot's own adapter is taken. See `instance_of`."""
        found = (self.instance_of(adapter, account) for adapter in adapters_of(platform))
        return next(filter(None, found), "")

    async def stream(self, key: ChatKey) -> dict[str, Any]:
        """A chat in MaiBot's form."""
        private = key.kind.value == "private"
        name = await self.store.users.name(key.instance, key.native_id) if private else ""
        await self.learn_group_name(key)
        return stream_of(
            key,
            adapter=self.services.adapter_of(key.instance),
            account=self.account_of(key.instance),
            user_name=name,
            group_name=self.facts_of_chats.group_name(key),
        )

    async def learn_group_name(self, key: ChatKey) -> None:
        """Take a group's name from the store. If the store has none, find it out; see
        `ChatFacts.learn_group_name`."""
        self.facts_of_chats.set_group_name(key, self.store.chats.name(key))
        await self.facts_of_chats.learn_group_name(
            key,
            adapter=self.services.adapter_of(key.instance),
            account=self.account_of(key.instance),
            named=self.store.chats.named,
        )

    def message(self, record: Record | ChatMessage, *, binary: bool = False) -> dict[str, Any]:
        """A message in MaiBot's form. ``binary`` adds the bytes of its media as base64."""
        key = record.chat_key
        # A message that is about to be sent has no number yet. It inherits the values that a
        # gateway sent with the chat's newest message.
        sending = isinstance(record, Record) and record.seq == 0
        received = "" if sending else record.message_id or "-"
        return message_of(
            record,
            adapter=self.services.adapter_of(key.instance),
            account=self.account_of(key.instance),
            group_name=self.facts_of_chats.group_name(key),
            inherited=self.facts_of_chats.config(key, received),
            binary=binary,
        )

    async def message_for(self, ctx: AgentCtx) -> dict[str, Any]:
        """The message that the run of ``ctx`` answers, in MaiBot's form; an empty dict if no
        message woke the bot."""
        if not ctx.message_id:
            return {}
        record = await self.store.messages.by_message_id(ctx.chat, ctx.message_id)
        return self.message(record) if record is not None else {}

    async def answered_message(self, key: ChatKey) -> str:
        """The id of the message that a turn in a chat answers: the newest message to the bot, or
        the newest message of a person. Empty if there is none."""
        records = await self.store.messages.newest(key, _ANSWERED_AMONG)
        people = [each for each in records if each.author is Author.PERSON and not each.recalled]
        asked = [each for each in people if each.to_bot] or people
        return asked[-1].message_id if asked else ""

    def now(self) -> datetime:
        """The time in the bot's time zone."""
        return datetime.fromtimestamp(self.wall(), self.zone)

    def account_of(self, instance: str) -> str:
        """The platform's id of an instance's account; empty if it is not known."""
        account = self.store.accounts.of(instance)
        return account.account if account else ""
