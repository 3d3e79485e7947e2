"""Lets operators export what the bot knows, and import it."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, SecretStr

from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.operator.transfer.exporter import Exporter, Sources
from nekro_core.operator.transfer.history import HistoryImporter
from nekro_core.operator.transfer.importer import Importer
from nekro_core.operator.transfer.lines import write_line
from nekro_core.operator.transfer.report import TransferReport

_MESSAGES = 1000
"""Maximum number of messages in one part of an export: about 1 MB."""
MAX_CHARS = 500_000
"""Maximum number of characters of the lines that a caller should put into one request. A request
may have 4 MiB, and a character takes up to 6 bytes in JSON. A longer line is sent alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPart:
    """A part of an export.

    Attributes:
        lines: The JSON lines.
        count: Their number.
        next_after: The parameter ``after`` of the next part; -1 if this is the last one.
    """

    lines: str
    count: int
    next_after: int


class Transfer(Area):
    """The exports and imports.

    Args:
        audit: The audit log.
        sources: Where the data is.
        memory: The memory.
        alone: Whether no bot uses the store, so that messages can be imported.
    """

    name = "transfer"

    def __init__(
        self, audit: AuditLog, sources: Sources, memory: MemoryKeeper, *, alone: bool = False
    ) -> None:
        super().__init__(audit)
        self._exporter = Exporter(sources)
        self._sources = sources
        self._memory = memory
        self._history = HistoryImporter(sources.store, memory.scope) if alone else None

    @query(role=AccessRole.OWNER)
    async def export_lines(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        messages: bool = False,
        after: Annotated[int, Field(ge=-1)] = -1,
    ) -> ExportPart:
        """Get a part of an export as JSON lines: settings without secrets, personas, policies,
        accounts, chats, people and notes; then messages.

        Args:
            messages: Whether messages follow.
            after: Which part: -1 for the first one, else ``next_after`` of the part before.
        """
        if after < 0:
            lines = [write_line(each) async for each in self._exporter.lines()]
            return ExportPart(
                lines="".join(lines), count=len(lines), next_after=0 if messages else -1
            )
        found, last = await self._exporter.messages(after, _MESSAGES)
        text = "".join(write_line(each) for each in found)
        return ExportPart(lines=text, count=len(found), next_after=last or -1)

    @action(role=AccessRole.OWNER, takes_file=True)
    async def import_lines(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        lines: SecretStr,
        first_line: Annotated[int, Field(ge=1)] = 1,
        made: Annotated[float, Field(ge=0)] = 0.0,
        check_only: bool = False,
    ) -> Change[TransferReport]:
        """Import lines of an export. What is here is not overwritten, except a persona by a newer
        version. People who were erased after the export was made are left out.

        Args:
            lines: The JSON lines. They are not written into the audit log.
            first_line: The number of the first line in the file. Lines that are left out are named
                by their number.
            made: When the export was made, in seconds since 1970. If a file is sent in several
                calls, an earlier part has said it; 0 if none has.
            check_only: Whether to store nothing and only report what would be stored.
        """
        importer = Importer(
            self._sources,
            self._memory.notes,
            self._memory.scope,
            history=self._history,
            write=not check_only,
            made=made,
        )
        # Only a line feed ends a line: other line ends of Unicode may be part of a text.
        for number, line in enumerate(lines.get_secret_value().split("\n"), first_line):
            if line.strip():
                await importer.take(number, line)
        report = importer.report
        new = {kind: counts.new for kind, counts in report.counts.items() if counts.new}
        return Change(result=report, new={"check_only": check_only, "new": new})
