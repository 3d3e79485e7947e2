"""The commands that every bot has and that are the agent's: ``/stop``."""

from typing import Protocol

from nekro_core.catalogue import Catalogue
from nekro_core.chat import Record
from nekro_core.plugin.commands.command import Command, CommandExecutionContext
from nekro_core.plugin.i18n import SupportedLang


class Stoppable(Protocol):
    """The sessions, as far as commands go."""

    def hear_stop(self, record: Record) -> None:
        """Somebody wants the chat's turn to stop."""


def own_commands(sessions: Stoppable, catalogue: Catalogue) -> tuple[Command, ...]:
    """To be put into the book of commands."""

    async def stop(context: CommandExecutionContext) -> None:
        assert context.record is not None
        # What became of it the session says: it may be for another bot of the group.
        sessions.hear_stop(context.record)

    does = {lang.value: catalogue.say("command.stop.does", lang) for lang in SupportedLang}
    return (Command(name="stop", handler=stop, i18n_description=does),)
