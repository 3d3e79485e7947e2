"""Gives the bot's settings, chats, accounts and messages in MaiBot's form."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nekro_core.chat import ChatKey, ChatMessage, Record
from nekro_core.compat.maibot.formats.messages import adapters_of, message_of, stream_of
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import Services
from nekro_core.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class BotView:
    """The data of the bot that capabilities and hooks read.

    ``names`` are the bot's names; the first name is its nickname. ``wall`` returns the time as
    seconds since 1970. ``talk_values`` has, for each stream id, the talk value that plugins set
    with ``ctx.frequency``. In MaiBot it says how often the bot talks; here it has no effect, and
    only plugins read it.
    """

    services: Services
    store: Store
    wall: Callable[[], float]
    names: Sequence[str] = ()
    persona: str = ""
    talk_values: dict[str, float] = field(default_factory=dict)

    def facts(self) -> Mapping[str, Any]:
        """The MaiBot settings that plugins read, with values from the bot's settings."""
        names = [*self.names]
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
        """The same as `instance_of`, for a platform by MaiBot's name. If the bot's own adapter and
        a plugin's gateway both have such an account, the bot's own adapter is taken."""
        found = (self.instance_of(adapter, account) for adapter in adapters_of(platform))
        return next(filter(None, found), "")

    async def stream(self, key: ChatKey) -> dict[str, Any]:
        """A chat in MaiBot's form."""
        private = key.kind.value == "private"
        name = await self.store.users.name(key.instance, key.native_id) if private else ""
        return stream_of(
            key,
            adapter=self.services.adapter_of(key.instance),
            account=self._account(key.instance),
            user_name=name,
        )

    def message(self, record: Record | ChatMessage, *, binary: bool = False) -> dict[str, Any]:
        """A message in MaiBot's form. ``binary`` adds the bytes of its media as base64."""
        instance = record.chat_key.instance
        return message_of(
            record,
            adapter=self.services.adapter_of(instance),
            account=self._account(instance),
            binary=binary,
        )

    async def message_for(self, ctx: AgentCtx) -> dict[str, Any]:
        """The message that the run of ``ctx`` answers, in MaiBot's form; an empty dict if no
        message woke the bot."""
        if not ctx.message_id:
            return {}
        record = await self.store.messages.by_message_id(ctx.chat, ctx.message_id)
        return self.message(record) if record is not None else {}

    def _account(self, instance: str) -> str:
        account = self.store.accounts.of(instance)
        return account.account if account else ""
