"""On the chat page, the words of a reply are one message that grows while the model writes, and the
page shows whether the bot is working on a reply."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.e2e.bot_process import running_bot
from tests.e2e.whole_bot import fence, model_settings, until
from tests.peers.scripted_model import Answer, Reply, ScriptedModelServer

pytestmark = pytest.mark.long

FIRST = "The sky is blue because air scatters short waves of light more than long ones. " * 2
LINES = [f"{number}. In the evening the light takes a longer way." for number in range(1, 7)]
ROOM = "private_lin"
EVERY_S = 0.3
"""The least number of seconds between two changes of a message."""


@dataclass
class Page:
    """A page that shows the room. ``seen`` has the texts of the bot's messages after each change,
    with its time. ``working`` has an entry for each change of the sign that the bot is working."""

    client: httpx.AsyncClient
    seen: list[tuple[float, list[str]]] = field(default_factory=list)
    working: list[bool] = field(default_factory=list)
    _texts: dict[int, str] = field(default_factory=dict)

    async def follow(self) -> None:
        async with self.client.stream("GET", f"/rooms/{ROOM}/events") as stream:
            name = ""
            async for line in stream.aiter_lines():
                kind, _, value = line.partition(": ")
                if kind == "event":
                    name = value
                elif kind == "data":
                    self._take(name, json.loads(value))

    def _take(self, name: str, data: dict[str, Any]) -> None:
        if name == "working":
            self.working.append(data["busy"])
        elif data["author"] == "bot" and data["state"] == "sent":
            self._texts[data["seq"]] = "".join(
                part["text"] for part in data["segments"] if part["type"] == "text"
            )
            shown = [*self._texts.values()]
            if not self.seen or self.seen[-1][1] != shown:
                self.seen.append((time.monotonic(), shown))

    async def say(self, text: str) -> None:
        body = {"speaker": "lin", "text": text}
        answer = await self.client.post(f"/rooms/{ROOM}/messages", json=body)
        assert answer.is_success, answer.text


@asynccontextmanager
async def page_of(folder: Path, *replies: Reply) -> AsyncIterator[Page]:
    async with (
        ScriptedModelServer(replies) as model,
        running_bot(folder, **model_settings(model)) as bot,
        httpx.AsyncClient(
            base_url=f"{bot.address}/api/v1",
            headers={"Authorization": f"Bearer {bot.token}"},
            trust_env=False,
            timeout=60,
        ) as client,
        anyio.create_task_group() as tasks,
    ):
        page = Page(client)
        tasks.start_soon(page.follow)
        await until(lambda: bool(page.working))
        yield page
        tasks.cancel_scope.cancel()


async def test_the_paragraphs_are_one_message_that_grows(tmp_path: Path) -> None:
    goes_on, ends = anyio.Event(), anyio.Event()
    lines = [part for line in LINES for part in (line + "\n", 0.1)]
    answer = Answer(chunks=[FIRST, "\n\n", lines[0], goes_on, *lines[1:], ends, "That is all."])
    async with page_of(tmp_path, answer) as page:
        await page.say("why is the sky blue?")
        await until(lambda: len(page.seen) == 1)
        assert page.seen[0][1] == [FIRST.strip()]
        assert page.working == [False, True]
        goes_on.set()
        await until(lambda: LINES[-1] in page.seen[-1][1][0])
        assert page.working == [False, True], "the model still writes"
        ends.set()
        await until(lambda: page.working == [False, True, False])
        await until(lambda: page.seen[-1][1][0].endswith("That is all."))
    assert {len(texts) for _, texts in page.seen} == {1}
    # A busy page gets two changes at once, so their number is compared with the whole time. Without
    # a pause between two changes, there would be eight in 0.7 s.
    seconds = page.seen[-1][0] - page.seen[0][0]
    assert 3 <= len(page.seen) <= 3 + seconds / EVERY_S
    (text,) = page.seen[-1][1]
    assert text.split() == f"{FIRST} {' '.join(LINES)} That is all.".split()


async def test_words_before_a_code_block_stay_on_the_page(tmp_path: Path) -> None:
    goes_on = anyio.Event()
    code = fence("send_channel_message('The sum is 42.')")
    answer = Answer(chunks=[FIRST, "\n\n", "I add.\n", goes_on, "\n", code])
    async with page_of(tmp_path, answer) as page:
        await page.say("why is the sky blue?")
        await until(lambda: len(page.seen) == 1)
        goes_on.set()
        await until(lambda: page.seen[-1][1][-1] == "The sum is 42.")
        await until(lambda: page.working == [False, True, False])
    first, second = page.seen[-1][1]
    assert first.startswith(FIRST.strip())
    assert second == "The sum is 42."
