"""Implements ``nekro chat``: a conversation in a terminal, over the web chat's HTTP API.

If a bot runs on the data folder, the conversation uses this bot: a second bot would resume the
turns of the first, and the folder's lock forbids a second bot. If no bot runs, one is started for
the conversation, in a separate process that writes its log to a file.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

import anyio
import httpx

from nekro_core.app.instance import InstanceInfo, find_running_instance, read_instance_file
from nekro_core.app.settings import Settings
from nekro_core.cli.fetch import fetch_weights
from nekro_core.system.errors import NekroError

_START_S = 180.0
"""Time limit for the start of a bot, in seconds. A start takes 2 s, and much longer on a busy
machine."""
_END_S = 10.0
"""Time limit for the end of a started bot, in seconds. The bot needs 3 s at most."""
_POLL_S = 0.1
_READ_BYTES = 65_536
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters. They are removed, because an escape sequence in a message could move the
terminal's cursor or set its title."""

_SILENCE_S = 15.0
"""Maximum number of seconds to wait after a line that comes from a file. The wait ends when a turn
begins, or when a command such as ``/help`` is answered. It is limited, because some lines cause no
turn and no answer."""

Json = dict[str, Any]


class _Gone(NekroError):
    """The conversation cannot continue. The text says why."""


async def run(options: argparse.Namespace) -> int:
    """Hold the conversation in the room and with the name that the command line gives. Return the
    exit status."""
    settings = Settings.load()
    alone = not find_running_instance(settings.nekro_data_dir)
    # Download the model before a bot is started, because a bot refuses questions while it downloads
    # its model.
    if alone and not settings.nekro_llm.configured and await fetch_weights(settings) is None:
        return 1
    return await talk(settings, room=options.room, speaker=options.name)


async def talk(
    settings: Settings,
    *,
    room: str,
    speaker: str,
    lines: TextIO = sys.stdin,
    out: TextIO = sys.stdout,
) -> int:
    """Send each line of ``lines`` as ``speaker`` and print the answers, until the lines end.

    If the lines do not come from a terminal, each line is sent after the answer to the line before.
    Returns an exit status.
    """
    async with running_bot(settings, out) as place:
        if place is None:
            return 1
        return await converse(place, room=room, speaker=speaker, lines=lines, out=out)


async def converse(
    place: InstanceInfo, *, room: str, speaker: str, lines: TextIO, out: TextIO
) -> int:
    """Send the lines to a running bot and print its answers; see `talk`."""
    room_path = quote(f"group_{room}" if room else f"private_{speaker}", safe="")
    async with httpx.AsyncClient(
        base_url=f"{place.address}/api/v1/rooms/{room_path}/",
        headers={"Authorization": f"Bearer {place.token}"},
        timeout=30.0,
        trust_env=False,
    ) as client:
        return await _Conversation(client, speaker, out).run(lines)


class _Conversation:
    def __init__(self, client: httpx.AsyncClient, speaker: str, out: TextIO) -> None:
        self._client = client
        self._speaker = speaker
        self._out = out
        self._busy = False
        self._turns = 0
        self._answers = 0
        self._changed = anyio.Event()
        self._listening = anyio.Event()

    async def run(self, lines: TextIO) -> int:
        status = 0
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._follow)
                await self._listening.wait()
                async for line in _read_lines(lines.fileno()):
                    if line.strip():
                        await self._say(line.strip(), wait=not lines.isatty())
                tasks.cancel_scope.cancel()
        except* (_Gone, httpx.HTTPError) as gone:
            self._print(f"the conversation ends: {_first(gone)}")
            status = 1
        return status

    async def _say(self, text: str, *, wait: bool) -> None:
        turns, answers = self._turns, self._answers
        answer = await self._client.post(
            "messages", json={"speaker": self._speaker, "text": text, "to_bot": True}
        )
        if answer.is_error:
            self._print(f"refused: {_reason(answer)}")
        elif wait:
            with anyio.move_on_after(_SILENCE_S):
                while self._turns == turns and not (
                    text.startswith("/") and self._answers > answers
                ):
                    await self._changed.wait()
            while self._busy:
                await self._changed.wait()

    async def _follow(self) -> None:
        async with self._client.stream("GET", "events", timeout=None) as stream:
            if stream.is_error:
                await stream.aread()
                raise _Gone(_reason(stream))
            name = ""
            async for line in stream.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    self._hear(name, json.loads(value))
        raise _Gone("the bot has ended")

    def _hear(self, name: str, data: Json) -> None:
        if name == "working":
            self._turns += bool(data["busy"]) and not self._busy
            self._busy = bool(data["busy"])
            self._listening.set()
        elif name == "message" and data["author"] != "person":
            text = " ".join(map(_read_aloud, data["segments"])).strip()
            self._print(f"{data['name'] or data['author']}: {text}")
            self._answers += 1
        self._changed.set()
        self._changed = anyio.Event()

    def _print(self, text: str) -> None:
        self._out.write(_CONTROLS.sub("", text) + "\n")
        self._out.flush()


async def _read_lines(descriptor: int) -> AsyncIterator[str]:
    """Yield each line when it arrives. No thread is used: a thread that waits for input cannot be
    cancelled and would delay the end of the process."""
    rest = b""
    while True:
        with suppress(PermissionError):  # raised for a regular file, which is always readable
            await anyio.wait_readable(descriptor)
        data = os.read(descriptor, _READ_BYTES)
        *lines, rest = (rest + data).split(b"\n") if data else (rest, b"")
        for line in lines:
            yield line.decode(errors="replace")
        if not data:
            return


def _first(error: BaseExceptionGroup[Exception]) -> Exception:
    """Return the first error of a group. One error is enough: if the bot ends, the reader and the
    writer fail for the same reason."""
    inner = error.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def _reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {answer.status_code}"


def _read_aloud(segment: Json) -> str:
    match segment["type"]:
        case "text":
            return str(segment["text"])
        case "mention":
            return f"@{segment['name'] or segment['id']}"
        case kind if "url" in segment:
            return f"[{kind}: {segment['url']}]"
        case kind:
            return f"[{kind}]"


@asynccontextmanager
async def running_bot(
    settings: Settings,
    out: TextIO,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> AsyncIterator[InstanceInfo | None]:
    """Yield the running bot. If no bot runs, start one for the ``with`` block and write a line
    about it to ``out``; yield None if it does not start. The started bot gets ``environment`` and
    the working directory ``folder``; by default it inherits both from this process."""
    if place := find_running_instance(settings.nekro_data_dir):
        yield place
        return
    data = settings.nekro_data_dir
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = data / "chat.log"
    out.write(f"starting a bot for this conversation; its log is {log}\n")
    out.flush()
    with log.open("ab") as file:
        process = await anyio.open_process(
            [sys.executable, "-m", "nekro_core", "run"],
            env={"PORT": "0", **environment} if environment else {**os.environ, "PORT": "0"},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        place = None
        with anyio.move_on_after(_START_S):
            while process.returncode is None and place is None:
                await anyio.sleep(_POLL_S)
                note = read_instance_file(data)
                # Compare the process id, because the file may be from an earlier bot that was
                # killed.
                place = note if note and note.pid == process.pid else None
        if place is None:
            out.write(f"the bot did not start; the end of {log} says why\n")
        yield place
    finally:
        if process.returncode is None:
            process.terminate()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_END_S):
                await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()
