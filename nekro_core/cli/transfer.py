"""Implements ``nekro export`` and ``nekro import``: what the bot knows as JSON lines.

If a bot runs, both use it, so the same checks and the same audit log apply as in the console. If
none runs, they open the data folder themselves.
"""

import argparse
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import httpx
import msgspec
from pydantic import SecretStr
from pydantic_core import to_jsonable_python

from nekro_core.app.instance import find_running_instance
from nekro_core.app.offline_transfer import open_transfer
from nekro_core.app.settings import Settings
from nekro_core.cli.operator_calls import OperatorCallFailed, checked_answer, operator_client
from nekro_core.operator.errors import OperatorError
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.operator.transfer.area import MAX_CHARS, ExportPart, Transfer
from nekro_core.operator.transfer.lines import MAX_LINE
from nekro_core.operator.transfer.report import TransferReport
from nekro_core.store import StoreError
from nekro_core.system.documents import DocumentError

_SHOWN = 100
"""Maximum number of printed sentences that say why a line was not imported."""
_IMPORT_S = 600.0
"""Time limit in seconds for one part of an import. A part has up to 5,000 lines, and each line is a
write to the database."""


class _Way(Protocol):
    """The way to the data: through a running bot, or to the data folder."""

    async def export(self, *, messages: bool, after: int) -> ExportPart:
        """Get a part of an export."""

    async def take(
        self, lines: str, *, first_line: int, made: float, check_only: bool
    ) -> TransferReport:
        """Import lines. With ``check_only``, only say what an import would do."""


async def export(options: argparse.Namespace) -> int:
    """Write what the bot knows to a file or to stdout. Returns an exit status. Raises
    `SettingsError`."""
    return await _guarded(_export, options)


async def import_(options: argparse.Namespace) -> int:
    """Import the lines of a file or of stdin. Returns an exit status. Raises `SettingsError`."""
    return await _guarded(_import, options)


async def _guarded(action: Any, options: argparse.Namespace) -> int:
    settings = Settings.load()
    try:
        async with _way(settings) as way:
            status: int = await action(way, options)
            return status
    except (
        DocumentError,
        OperatorCallFailed,
        OperatorError,
        StoreError,
        httpx.HTTPError,
        OSError,
        UnicodeDecodeError,
    ) as error:
        print(str(error) or type(error).__name__, file=sys.stderr)
        return 1


@asynccontextmanager
async def _way(settings: Settings) -> AsyncIterator[_Way]:
    place = find_running_instance(settings.nekro_data_dir)
    if place is None:
        async with open_transfer(settings) as area:
            yield _Folder(area)
        return
    async with operator_client(place) as client:
        client.timeout = httpx.Timeout(_IMPORT_S)
        yield _RunningBot(client)


async def _export(way: _Way, options: argparse.Namespace) -> int:
    count = 0
    with _new_file(options.file) as file:
        after = -1
        while True:
            part = await way.export(messages=options.messages, after=after)
            file.write(part.lines)
            count += part.count
            after = part.next_after
            if after < 0:
                break
    if options.file not in ("", "-"):
        print(f"{options.file}: {count} lines")
    return 0


async def _import(way: _Way, options: argparse.Namespace) -> int:
    total = TransferReport()
    with _opened(options.file) as file:
        for first, text in _parts(file):
            report = await way.take(
                text, first_line=first, made=total.made, check_only=options.dry_run
            )
            total.made = report.made
            for sentence in report.sentences[: max(0, _SHOWN - len(total.sentences))]:
                total.sentences.append(sentence)
                print(sentence, file=sys.stderr)
            for kind, counts in report.counts.items():
                sums = total.of(kind)
                sums.new += counts.new
                sums.existed += counts.existed
                sums.differ += counts.differ
                sums.refused += counts.refused
    new = "would be new" if options.dry_run else "are new"
    for kind, sums in total.counts.items():
        if kind != "export":
            print(
                f"{kind}: {sums.new} {new}, {sums.existed} were here already, {sums.differ} differ "
                f"and stay as they are here, {sums.refused} are refused"
            )
    if not any(kind != "export" for kind in total.counts):
        print("the file has no lines to import")
    return 1 if any(each.refused for each in total.counts.values()) else 0


def _new_file(name: str) -> Any:
    """Return stdout, or a new file that only its owner may read, because it has words of people.
    Raises `OSError` if the file exists."""
    if name in ("", "-"):
        return _Kept(sys.stdout)
    path = Path(name)
    path.touch(mode=0o600, exist_ok=False)
    return path.open("w", encoding="utf-8", newline="\n")


def _opened(name: str) -> Any:
    return _Kept(sys.stdin) if name == "-" else Path(name).open(encoding="utf-8", newline="\n")


class _Kept:
    """A stream that the ``with`` block does not close."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> Any:
        return self._stream

    def __exit__(self, *_: object) -> None:
        pass


def _parts(file: IO[str]) -> Iterator[tuple[int, str]]:
    """Yield the file in parts, each with the number of its first line. Of a line that is longer
    than `MAX_LINE`, only the beginning is kept in memory: one character more than the bot
    accepts."""
    lines: list[str] = []
    size, first, number = 0, 1, 0
    while line := file.readline(MAX_LINE + 2):
        number += 1
        while not line.endswith("\n") and (rest := file.readline(MAX_LINE)):
            line = line[: MAX_LINE + 1] + rest[-1:]
        if lines and size + len(line) > MAX_CHARS:
            yield first, "".join(lines)
            lines, size, first = [], 0, number
        lines.append(line)
        size += len(line)
    if lines:
        yield first, "".join(lines)


class _Folder:
    """Uses the data folder, which no bot uses."""

    _ACTOR = Actor(name="cli", role=AccessRole.OWNER, origin=RequestOrigin.CLI)

    def __init__(self, area: Transfer) -> None:
        self._area = area

    async def export(self, *, messages: bool, after: int) -> ExportPart:
        return await self._area.export_lines(self._ACTOR, messages=messages, after=after)

    async def take(
        self, lines: str, *, first_line: int, made: float, check_only: bool
    ) -> TransferReport:
        done = await self._area.import_lines(
            self._ACTOR,
            lines=SecretStr(lines),
            first_line=first_line,
            made=made,
            check_only=check_only,
        )
        return done.result


class _RunningBot:
    """Uses the HTTP API of a running bot."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def export(self, *, messages: bool, after: int) -> ExportPart:
        given = {"messages": str(messages).lower(), "after": str(after)}
        answer = await self._client.get("/transfer/export_lines", params=given)
        return msgspec.convert(checked_answer(answer)["result"], ExportPart)

    async def take(
        self, lines: str, *, first_line: int, made: float, check_only: bool
    ) -> TransferReport:
        given = {
            "lines": lines,
            "first_line": first_line,
            "made": made,
            "check_only": check_only,
        }
        answer = await self._client.post("/transfer/import_lines", json=to_jsonable_python(given))
        return msgspec.convert(checked_answer(answer)["result"], TransferReport)
