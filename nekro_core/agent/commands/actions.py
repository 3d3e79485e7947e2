"""Defines the changes that built-in commands make. In a running bot, the operator's actions make
these changes (`nekro_core.operator.chat_commands`), so that a change by a command is checked,
logged and undone like a change on a page of the console."""

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
    """Makes the changes of commands, in the name of the person of ``context``. All methods raise
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
        """Stop the chat's turn, and write in the chat that the bot stopped. If no turn runs, drop
        the questions that came before ``record``."""

    async def reset(self, context: CommandExecutionContext, chat: ChatKey, before: int) -> None:
        """Begin a new conversation. Drop the unanswered questions before record ``before``; 0 drops
        all of them."""

    async def erase(
        self, context: CommandExecutionContext, chat: ChatKey, user_id: str
    ) -> ErasureReport:
        """Erase a person of the chat's platform."""


class ChangedChats(Protocol):
    """The methods of `nekro_core.agent.session.sessions.Sessions` that `DirectActions` calls."""

    def on_stop(self, record: Record) -> None:
        """Handle ``/stop``."""

    async def follow_state(self, chat_key: ChatKey, was: ChatState) -> None:
        """Act on the change of a chat's state. ``was`` is the state before the change."""

    async def reset(self, chat_key: ChatKey, before: int = 0) -> None:
        """Begin a new conversation."""

    async def erase_person(self, chat_key: ChatKey, user_id: str) -> ErasureReport:
        """Erase a person."""


class DirectActions:
    """Makes the changes without checking rights and without an audit log, for a bot that has no
    operators."""

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
    """Holds the `CommandActions` that commands use, in ``now``: at first `DirectActions`. The app
    replaces them with the operator's actions, which are built after the commands. Read ``now`` only
    when a command runs."""

    now: CommandActions
