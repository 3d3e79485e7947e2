"""Shows the log of the running bot, live, and changes its level."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Annotated

from pydantic import Field

from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.elsewhere import ProcessChoice
from nekro_core.operator.errors import InvalidParameters, NotAllowed
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.system.logs.book import LogBook
from nekro_core.system.logs.line import LogFilter, LogLine
from nekro_core.system.logs.ring import MissedLines

ProcessName = Annotated[str, Field(max_length=64)]
LevelName = Annotated[str, Field(min_length=1, max_length=20)]


class Logs(Area):
    """The log.

    Args:
        audit: The audit log.
        book: The newest lines, the files and the level.
    """

    name = "logs"

    def __init__(self, audit: AuditLog, book: LogBook) -> None:
        super().__init__(audit)
        self._book = book

    @query(role=AccessRole.VIEWER, process=ProcessChoice.ANY)
    async def newest(
        self,
        actor: Actor,
        *,
        severity: int = 0,
        chat_key: str = "",
        turn_id: int = 0,
        plugin: str = "",
        text: Annotated[str, Field(max_length=200)] = "",
        before: int = 0,
        limit: Annotated[int, Field(ge=1, le=1000)] = 200,
        process: ProcessName = "",
    ) -> list[LogLine]:
        """List the newest lines of one process, newest first.

        Args:
            severity: Only lines with this number or a higher one: 10 is DEBUG, 20 INFO, 30 WARNING,
                40 ERROR.
            chat_key: Only lines of this chat.
            turn_id: Only lines of this turn.
            plugin: Only lines of this plugin, as the list of plugins names it.
            text: Only lines that contain this text.
            before: The number of a line: list only older lines. 0 for the newest.
            limit: The largest number of lines.
            process: The name of a process of the cluster; empty for the process that is asked.
        """
        if self.others is not None and process not in ("", self.others.node):
            given = {
                "severity": severity,
                "chat_key": chat_key,
                "turn_id": turn_id,
                "plugin": plugin,
                "text": text,
                "before": before,
                "limit": limit,
            }
            lines: list[LogLine] = await self.others.at_node(process, self.newest, actor, given)
            return lines
        wanted = LogFilter(
            severity=severity, chat_key=chat_key, turn_id=turn_id, plugin=plugin, text=text
        )
        return [*self._book.newest(wanted, before=before, limit=limit)]

    @query(role=AccessRole.VIEWER)
    async def level(self, actor: Actor) -> str:  # noqa: ARG002
        """Show the level below which nothing is logged."""
        return self._book.level

    @action(role=AccessRole.OPERATOR)
    async def set_level(self, actor: Actor, *, level: LevelName) -> Change[str]:  # noqa: ARG002
        """Change the level of the log until the end of the process.

        Args:
            level: TRACE, DEBUG, INFO, SUCCESS, WARNING, ERROR, CRITICAL, or a number.
        """
        old = self._book.level
        try:
            self._book.set_level(level)
        except ValueError as error:
            raise InvalidParameters({"level": str(error)}) from None
        return Change(
            result=level,
            subject="level",
            old=old,
            new=level,
            undo=UndoCall(action="logs.set_level", parameters={"level": old}),
        )

    def follow(
        self, actor: Actor, wanted: LogFilter | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[LogLine | MissedLines]]:
        """Follow the new lines that match. A reader that is too slow gets a `MissedLines`.

        Args:
            actor: Who asks.
            wanted: The conditions; None for all lines.

        Returns:
            A context whose value iterates over the lines.

        Raises:
            NotAllowed: The actor may not read the log.
        """
        self._check(actor)
        return self._book.follow(wanted)

    def download(self, actor: Actor) -> AsyncIterator[bytes]:
        """Read all log files, oldest first, as lines of JSON.

        Args:
            actor: Who asks.

        Returns:
            The content, in pieces.

        Raises:
            NotAllowed: The actor may not read the log.
        """
        self._check(actor)
        return self._book.download()

    def _check(self, actor: Actor) -> None:
        if not actor.role.allows(AccessRole.VIEWER) or not actor.in_scope(self.name, acts=False):
            raise NotAllowed(f"the log needs the role {AccessRole.VIEWER} and the scope logs:read")
