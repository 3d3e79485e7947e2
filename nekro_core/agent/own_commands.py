"""The commands that every bot has and that are the agent's: ``/stop`` and ``/reset``."""

from typing import Protocol

from nekro_core.catalogue import Catalogue
from nekro_core.chat import ChatKey, ChatKind, Record
from nekro_core.plugin.commands.access import CommandPermission
from nekro_core.plugin.commands.command import Command, CommandExecutionContext
from nekro_core.plugin.commands.response import CmdCtl, CommandResponse
from nekro_core.plugin.i18n import SupportedLang

_OF_MANY = CommandPermission.ADVANCED


class Stoppable(Protocol):
    """The sessions, as far as commands go."""

    def hear_stop(self, record: Record) -> None:
        """Somebody wants the chat's turn to stop."""

    async def begin_anew(self, chat_key: ChatKey) -> None:
        """Forget the chat's past. Raises `OSError` and `StoreError`."""


def own_commands(sessions: Stoppable, catalogue: Catalogue) -> tuple[Command, ...]:
    """To be put into the book of commands."""

    async def stop(context: CommandExecutionContext) -> None:
        assert context.record is not None
        # What became of it the session says: it may be for another bot of the group.
        sessions.hear_stop(context.record)

    async def reset(context: CommandExecutionContext) -> CommandResponse:
        chat = ChatKey.parse(context.chat_key)
        # Of a chat of many the past is not one member's to throw away.
        if chat.kind is not ChatKind.PRIVATE and not context.standing.allows(_OF_MANY):
            return CmdCtl.failed(catalogue.say("command.reset.not_allowed", context.lang))
        await sessions.begin_anew(chat)
        return CmdCtl.success(catalogue.say("command.reset.done", context.lang))

    def does(name: str) -> dict[str, str]:
        return {str(lang): catalogue.say(f"command.{name}.does", lang) for lang in SupportedLang}

    return (
        Command(name="stop", handler=stop, i18n_description=does("stop")),
        Command(
            name="reset",
            handler=reset,
            permission=CommandPermission.USER,
            i18n_description=does("reset"),
        ),
    )
