"""``nekro chat``: the web chat's conversation in a terminal, over its HTTP API.

Through the running bot where one runs: two processes on one data folder would each take up the
other's turns, and the folder's lock forbids it. Where none runs, one is started for the length of
the conversation, as a process of its own with its log in a file.
"""

import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TextIO
from urllib.parse import quote

import anyio
import anyio.to_thread
import httpx

from nekro_core.gateway import Place, where_it_runs
from nekro_core.settings import Settings

_START_S = 900.0
"""Longest start of a bot of our own: the first one downloads the model's weights."""
_POLL_S = 0.1
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""A message must not steer the terminal: escape sequences move the cursor and set the title."""

Json = dict[str, Any]


async def talk(
    settings: Settings,
    *,
    room: str,
    speaker: str,
    lines: TextIO = sys.stdin,
    out: TextIO = sys.stdout,
) -> int:
    """Send each line of ``lines`` as ``speaker`` and print what is answered, until they end.

    After the last line it waits until the bot has no more to say. Returns an exit status.
    """
    async with _bot(settings, out) as place:
        if place is None:
            return 1
        headers = {"Authorization": f"Bearer {place.token}"}
        base = f"{place.address}/api/v1/rooms/{quote(f'private_{speaker}', safe='')}"
        if room:
            base = f"{place.address}/api/v1/rooms/{quote(f'group_{room}', safe='')}"
        async with httpx.AsyncClient(headers=headers, timeout=30.0) as client:
            conversation = _Conversation(client, base, speaker, out)
            return await conversation.run(lines)


class _Conversation:
    def __init__(self, client: httpx.AsyncClient, base: str, speaker: str, out: TextIO) -> None:
        self._client = client
        self._base = base
        self._speaker = speaker
        self._out = out
        self._busy = False
        self._changed = anyio.Event()
        self._listening = anyio.Event()

    async def run(self, lines: TextIO) -> int:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow)
            await self._listening.wait()
            while line := await anyio.to_thread.run_sync(lines.readline, abandon_on_cancel=True):
                if not line.strip():
                    continue
                answer = await self._client.post(
                    f"{self._base}/messages",
                    json={"speaker": self._speaker, "text": line.strip(), "to_bot": True},
                )
                if answer.is_error:
                    self._print(f"refused: {answer.text}")
                elif not lines.isatty():
                    await self._answered()
            tasks.cancel_scope.cancel()
        return 0

    async def _answered(self) -> None:
        """Wait until a turn has begun and ended: what reads from a file has nobody who waits."""
        for busy in (True, False):
            while self._busy is not busy:
                await self._changed.wait()

    async def _follow(self) -> None:
        async with self._client.stream("GET", f"{self._base}/events", timeout=None) as stream:
            stream.raise_for_status()
            name = ""
            async for line in stream.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    self._hear(name, json.loads(value))

    def _hear(self, name: str, data: Json) -> None:
        if name == "working":
            self._busy = bool(data["busy"])
            self._listening.set()
            self._changed.set()
            self._changed = anyio.Event()
        elif name == "message" and data["author"] != "person":
            text = " ".join(map(_read_aloud, data["segments"])).strip()
            self._print(f"{data['name'] or data['author']}: {text}")

    def _print(self, text: str) -> None:
        self._out.write(_CONTROLS.sub("", text) + "\n")
        self._out.flush()


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
async def _bot(settings: Settings, out: TextIO) -> AsyncIterator[Place | None]:
    if place := where_it_runs(settings.nekro_data_dir):
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
            env={**os.environ, "PORT": "0"},
            stdin=None,
            stdout=file,
            stderr=file,
        )
    try:
        place = None
        with anyio.move_on_after(_START_S):
            while process.returncode is None and place is None:
                await anyio.sleep(_POLL_S)
                place = where_it_runs(data)
        if place is None:
            out.write(f"the bot did not start; the end of {log} says why\n")
        yield place
    finally:
        if process.returncode is None:
            process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()
