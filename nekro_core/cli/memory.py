"""Implements ``nekro memory export`` and ``nekro memory import``: notes as JSON lines.

Both commands use the running bot, so the same checks, audit log and scopes apply as in the console.
"""

import argparse
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from nekro_core.app.instance import find_running_instance
from nekro_core.app.settings import Settings
from nekro_core.cli.operator_calls import OperatorCallFailed, checked_answer, operator_client

_BATCH_CHARS = 500_000
"""Maximum number of characters in one request. A request may have 4 MiB, and a character takes up
to 6 bytes in JSON."""


async def run(options: argparse.Namespace) -> int:
    """Export or import notes. Returns an exit status. Raises `SettingsError`."""
    place = find_running_instance(Settings.load().nekro_data_dir)
    if place is None:
        print("no bot runs here: start it with nekro run", file=sys.stderr)
        return 1
    try:
        async with operator_client(place) as client:
            if options.action == "export":
                await _export(client, options)
                return 0
            return await _import(client, options)
    except (OperatorCallFailed, httpx.HTTPError, OSError, UnicodeDecodeError) as error:
        print(str(error) or type(error).__name__, file=sys.stderr)
        return 1


async def _export(client: httpx.AsyncClient, options: argparse.Namespace) -> None:
    given = {"chat_key": options.chat} if options.chat else {}
    answer = checked_answer(await client.get("/memory/export_notes", params=given))["result"]
    if options.file in ("", "-"):
        sys.stdout.write(answer["lines"])
        return
    _write_new(Path(options.file), answer["lines"])
    print(f"{options.file}: {answer['count']} notes")


async def _import(client: httpx.AsyncClient, options: argparse.Namespace) -> int:
    text = _read(options.file)
    kept = existed = refused = 0
    first = 1
    for batch in _batches([*io.StringIO(text)]):
        given: dict[str, Any] = {"lines": "".join(batch), "first_line": first}
        if options.chat:
            given["chat_key"] = options.chat
        answer = await client.post("/memory/import_notes", json=given)
        done = checked_answer(answer)["result"]
        kept += done["kept"]
        existed += done["existed"]
        refused += done["refused_count"]
        for why in done["refused"]:
            print(why, file=sys.stderr)
        first += len(batch)
    print(f"{kept} notes are new, {existed} were here already, {refused} lines are left out")
    return 1 if refused else 0


def _write_new(path: Path, lines: str) -> None:
    """Write a file that does not exist yet. Only its owner may read it, because it contains words
    of people."""
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(lines, "utf-8")


def _read(file: str) -> str:
    return sys.stdin.read() if file in ("", "-") else Path(file).read_text("utf-8")


def _batches(lines: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for line in lines:
        if batch and size + len(line) > _BATCH_CHARS:
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield batch
