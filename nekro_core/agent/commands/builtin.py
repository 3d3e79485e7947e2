"""Defines the built-in commands that every bot has. ``/help`` is in `plugins/commands`."""

from typing import Protocol

from nekro_core.agent.commands.actions import ChangedChats, DirectActions
from nekro_core.agent.commands.erase_command import erase_command
from nekro_core.agent.commands.memory_command import memory_commands
from nekro_core.agent.commands.model_command import model_command
from nekro_core.agent.commands.policy_commands import policy_commands
from nekro_core.agent.commands.quota_command import quota_command
from nekro_core.agent.commands.services import CommandServices, command_texts
from nekro_core.agent.commands.status_command import status_command
from nekro_core.agent.erasure.erasure import PersonErasure
from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.command_response import CmdCtl, CommandResponse
from nekro_core.plugins.authoring.commands import Command, CommandExecutionContext
from nekro_core.policy.permissions import CommandPermission


class SessionControl(ChangedChats, Protocol):
    """The part of the sessions that commands use."""

    async def wait_until_idle(self, chat_key: ChatKey) -> None:
        """Wait until no turn of the chat runs."""


def builtin_commands(
    sessions: SessionControl, services: CommandServices, erasing: PersonErasure | None = None
) -> tuple[Command, ...]:
    """Return the commands for the command registry. Without ``erasing`` there is no ``/erase``."""
    catalogue, actions = services.catalogue, services.actions
    if not hasattr(actions, "now"):
        actions.now = DirectActions(sessions, services.policies.conduct)

    async def stop(context: CommandExecutionContext) -> None:
        assert context.record is not None
        # The session sends the answer, because only the session knows whether the command was meant
        # for another bot.
        await actions.now.stop(context, context.record)

    async def reset(context: CommandExecutionContext) -> CommandResponse:
        asked = context.record
        chat = ChatKey.parse(context.chat_key)
        await actions.now.reset(context, chat, asked.seq if asked else 0)
        said = [catalogue.say("own.reset.done", context.lang)]
        if services.memory is not None and await services.memory.notes.listed(chat):
            said.append(catalogue.say("own.reset.notes", context.lang))
        return CmdCtl.success(" ".join(said))

    commands: tuple[Command, ...] = (
        Command(name="stop", handler=stop, **command_texts(catalogue, "stop")),
        Command(
            name="reset",
            handler=reset,
            # A single member of a group must not reset the conversation of all members.
            permission=CommandPermission.CHAT_ADMIN,
            **command_texts(catalogue, "reset"),
        ),
        *policy_commands(services),
        model_command(services),
        status_command(services, sessions.wait_until_idle),
        quota_command(services),
    )
    if services.memory is not None:
        commands = (
            *commands,
            *memory_commands(services, services.memory, sessions.wait_until_idle),
        )
    if erasing is None:
        return commands
    return (*commands, erase_command(services, erasing))
