"""Defines what the built-in commands change. In a running bot, the operator's actions carry it out
(`nekro_core.operator.chat_commands`), so that a change by a command is checked, logged and undone
like one on a page."""

from collections.abc import Mapping
from typing import Any, Protocol

from nekro_core.agent.erasure.erasure import ErasureReport
from nekro_core.chat import ChatKey, Record
from nekro_core.plugins.authoring.commands import CommandExecutionContext
from nekro_core.policy import ChatState, InvalidOverride, PolicyFile
from nekro_core.system.errors import NekroError


class ChangeRefused(NekroError):
    """A change is impossible. The text says why; the person who wrote the command reads it."""


class CommandActions(Protocol):
    """Carries out what commands change, for the person of ``context``. All methods raise
    `ChangeRefused`, other `NekroError` and `OSError`."""

    async def set_policy(
        self, context: CommandExecutionContext, chat: ChatKey, field: str, value: object | None
    ) -> None:
        """Set a field of a chat's overrides; None removes it."""

    async def set_person_quota(
        self,
        context: CommandExecutionContext,
        place: str,
        user_id: str,
        quota: Mapping[str, Any] | None,
    ) -> None:
        """Set how much a person may use in 24 hours; None removes it. ``place`` is the name of the
        adapter."""

    async def stop(self, context: CommandExecutionContext, record: Record) -> None:
        """Stop the chat's turn, or drop the questions before ``record``, and tell the chat."""

    async def reset(self, context: CommandExecutionContext, chat: ChatKey, before: int) -> None:
        """Begin a new conversation. Only questions before record ``before`` are dropped; 0 for
        all."""

    async def erase(
        self, context: CommandExecutionContext, chat: ChatKey, user_id: str
    ) -> ErasureReport:
        """Erase a person of the chat's platform."""


class ChangedChats(Protocol):
    """The part of the sessions that changes use (`nekro_core.agent.session.sessions.Sessions`)."""

    def on_stop(self, record: Record) -> None:
        """Handle ``/stop``."""

    async def follow_state(self, chat_key: ChatKey, was: ChatState) -> None:
        """Act on a change of what the bot does in a chat."""

    async def reset(self, chat_key: ChatKey, before: int = 0) -> None:
        """Begin a new conversation."""

    async def erase_person(self, chat_key: ChatKey, user_id: str) -> ErasureReport:
        """Erase a person."""


class DirectActions:
    """Changes everything without an operator's rights and log, for a bot that has no operators."""

    def __init__(self, sessions: ChangedChats, conduct: PolicyFile) -> None:
        self._sessions = sessions
        self._conduct = conduct

    async def set_policy(
        self, _: CommandExecutionContext, chat: ChatKey, field: str, value: object | None
    ) -> None:
        """See `CommandActions`."""
        was = self._conduct.state(chat)
        await self._put(("chats", str(chat)), field, value)
        if field == "state":
            await self._sessions.follow_state(chat, was)

    async def set_person_quota(
        self,
        _: CommandExecutionContext,
        place: str,
        user_id: str,
        quota: Mapping[str, Any] | None,
    ) -> None:
        """See `CommandActions`."""
        await self._put(("people", f"{place}:{user_id}"), "quota", quota)

    async def stop(self, _: CommandExecutionContext, record: Record) -> None:
        """See `CommandActions`."""
        self._sessions.on_stop(record)

    async def reset(self, _: CommandExecutionContext, chat: ChatKey, before: int) -> None:
        """See `CommandActions`."""
        await self._sessions.reset(chat, before)

    async def erase(self, _: CommandExecutionContext, chat: ChatKey, user_id: str) -> ErasureReport:
        """See `CommandActions`."""
        return await self._sessions.erase_person(chat, user_id)

    async def _put(self, table: tuple[str, str], field: str, value: object | None) -> None:
        try:
            await self._conduct.put(table, field, value)
        except InvalidOverride as error:
            raise ChangeRefused(str(error)) from error


class ActionsInForce:
    """The actions that commands use now. They change once: sessions are built before the operator's
    actions. ``now`` may be used when the sessions have begun."""

    now: CommandActions
