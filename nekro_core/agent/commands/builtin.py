"""Defines the built-in commands that every bot has. ``/help`` is in `plugins/commands`."""

from typing import Protocol

from nekro_core.agent.commands.erase_command import erase_command
from nekro_core.agent.commands.policy_commands import policy_commands
from nekro_core.agent.commands.services import CommandServices, command_texts
from nekro_core.agent.commands.status_commands import status_commands
from nekro_core.agent.erasure.erasure import PersonErasure
from nekro_core.chat import ChatKey, Record
from nekro_core.plugins.authoring.command_response import CmdCtl, CommandResponse
from nekro_core.plugins.authoring.commands import Command, CommandExecutionContext
from nekro_core.policy.permissions import CommandPermission


class SessionControl(Protocol):
    """The part of the sessions that commands use."""

    def on_stop(self, record: Record) -> None:
        """Handle ``/stop`` in a chat."""

    async def stop(self, chat_key: ChatKey) -> bool:
        """Stop the chat's turn. Returns False if no turn runs."""

    def working(self, chat_key: ChatKey) -> bool:
        """Return whether a turn of the chat runs."""

    async def wait_until_idle(self, chat_key: ChatKey) -> None:
        """Wait until no turn of the chat runs."""

    def forget_person(self, chat_key: ChatKey, user_id: str) -> None:
        """Drop a person's unanswered records."""

    async def reset(self, chat_key: ChatKey, before: int = 0) -> None:
        """Begin a new conversation, and drop the waiting questions: all, or only those before the
        record with sequence number ``before``. Raises `OSError` and `StoreError`."""


def builtin_commands(
    sessions: SessionControl, services: CommandServices, erasing: PersonErasure | None = None
) -> tuple[Command, ...]:
    """Return the commands for the command registry. Without ``erasing`` there is no ``/erase``."""
    catalogue = services.catalogue

    async def stop(context: CommandExecutionContext) -> None:
        assert context.record is not None
        # The session sends the answer, because only the session knows whether the command was meant
        # for another bot.
        sessions.on_stop(context.record)

    async def reset(context: CommandExecutionContext) -> CommandResponse:
        asked = context.record
        await sessions.reset(ChatKey.parse(context.chat_key), asked.seq if asked else 0)
        return CmdCtl.success(catalogue.say("own.reset.done", context.lang))

    commands = (
        Command(name="stop", handler=stop, **command_texts(catalogue, "stop")),
        Command(
            name="reset",
            handler=reset,
            # A single member of a group must not reset the conversation of all members.
            permission=CommandPermission.CHAT_ADMIN,
            **command_texts(catalogue, "reset"),
        ),
        *policy_commands(services, sessions.stop),
        *status_commands(services, sessions.wait_until_idle),
    )
    if erasing is None:
        return commands
    return (*commands, erase_command(services, erasing, sessions))
