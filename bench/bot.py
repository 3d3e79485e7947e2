"""Measures the whole bot on loopback: a fake OneBot implementation sends it messages, and a
scripted model answers. The baseline is a bare NoneBot that echoes, measured in the same run with
the same fake OneBot implementation."""

import os
import re
import tempfile
import time
from pathlib import Path

import anyio
import httpx

from bench.bare_bot import bare, resident_mib
from bench.bot_answers import figures_of_answers
from bench.figure import Figure, percentiles
from bench.turn_load import DEBOUNCE_S, TOKEN, bot_settings
from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.read_database import StoreLook
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import Answer, Asked, ScriptedModelServer

ROUNDS = 100
FIRST_TURNS = 15
FLOOD = 2000
CHATS = 1000
PAGE_S = 4.0
"""Seconds after the start at which the memory is measured. By then the background work of the start
has ended."""


class TimedModel:
    """A model that records when it received a request. Its reply is one statement. The line
    break that completes the statement is sent when ``go`` is set."""

    def __init__(self) -> None:
        self.asked_at = self.complete_at = 0.0
        self.asked = anyio.Event()
        self.go = anyio.Event()

    def __call__(self, _asked: Asked) -> Answer:
        self.asked_at = time.perf_counter()
        self.asked.set()
        # The last chunk comes 0.3 s after the statement is complete. The bot must send the message
        # without waiting for that chunk.
        return Answer(
            chunks=[
                *("```python\n", 'send_channel_message("hi")'),
                *(self.go, self._complete, "\n"),
                *(0.3, "```"),
            ]
        )

    def _complete(self) -> None:
        self.complete_at = time.monotonic()

    def again(self) -> None:
        """Reset the events for the next round."""
        self.asked, self.go = anyio.Event(), anyio.Event()


async def figures() -> list[Figure]:
    """The figures of this module and of `bench.bot_answers`."""
    with tempfile.TemporaryDirectory() as folder:
        bare_start, echo_ms, bare_rate, bare_mib = await bare(Path(folder), ROUNDS, FLOOD)
    with tempfile.TemporaryDirectory() as folder:
        found = await _bot(Path(folder), bare_start, echo_ms, bare_rate, bare_mib)
    with tempfile.TemporaryDirectory() as folder:
        return [*found, *await figures_of_answers(Path(folder), echo_ms)]


async def _bot(
    folder: Path, bare_start: float, echo_ms: list[float], bare_rate: float, bare_mib: float
) -> list[Figure]:
    mind = TimedModel()
    async with (
        ScriptedModelServer(mind) as model,
        running_bot(folder, **bot_settings(model.base_url)) as bot,
    ):
        assert bot.process is not None
        await anyio.sleep(PAGE_S)
        idle_mib = resident_mib(bot.process.pid)
        async with OneBotPeer("20002", TOKEN, bot.onebot_url) as peer:
            await peer.wait_connected()
            to_prompt, to_wire = await _rounds(peer, mind, [30003] * (ROUNDS + 1))
            first_prompt, first_wire = await _rounds(
                peer, mind, [30100 + number for number in range(FIRST_TURNS)]
            )
            rate = await _flood(bot, peer)
            for group in range(CHATS):
                await peer.say_in_group(50000 + group, 10001, "hello")
            await _stored(bot, ROUNDS + 1 + FIRST_TURNS + FLOOD + CHATS)
            full_mib = resident_mib(bot.process.pid)
        first_page_s = await _open_first_page(bot)
        opened_mib = resident_mib(bot.process.pid)
        started = [bot.started_in]
        for _ in range(4):
            await bot.stop()
            await bot.start()
            started.append(bot.started_in)
    echo = percentiles(echo_ms)[0]
    return [
        Figure.of("message in -> prompt sent", "ms", to_prompt, echo, "bare echo", 5.0),
        Figure.of("statement complete -> on the wire", "ms", to_wire, echo, "bare echo", 5.0),
        Figure.of("the same, a chat's first turn: prompt", "ms", first_prompt, echo, "bare echo"),
        Figure.of("the same, a chat's first turn: wire", "ms", first_wire, echo, "bare echo"),
        Figure.of("start -> ready, without model", "s", started, bare_start, "bare NoneBot", 2.5),
        Figure(
            name="resident, idle", unit="MiB", p50=idle_mib, floor=bare_mib,
            floor_name="bare NoneBot", target=150.0,
        ),
        Figure(name="login link -> first page", unit="s", p50=first_page_s, target=1.0),
        Figure(
            name=f"resident, {CHATS:,} chats, page opened", unit="MiB", p50=opened_mib,
            floor=bare_mib, floor_name="bare NoneBot",
        ),
        Figure(
            name=f"resident, {CHATS:,} chats", unit="MiB", p50=full_mib, floor=bare_mib,
            floor_name="bare NoneBot",
        ),
        Figure(
            name="ingest", unit="messages/s", p50=rate, floor=bare_rate,
            floor_name="bare echo", target=bare_rate / 2, more_is_better=True,
        ),
    ]  # fmt: skip


async def _rounds(
    peer: OneBotPeer, mind: TimedModel, groups: list[int]
) -> tuple[list[float], list[float]]:
    """Ask a question in each group. Returns the milliseconds until each request reached the model,
    and from each complete statement until its message was sent. The first question is left out."""
    to_prompt, to_wire = [], []
    for number, group in enumerate(groups):
        mind.again()
        said = time.perf_counter()
        await peer.say_in_group(group, 10001, f"question {number}", at_me=True)
        await mind.asked.wait()
        to_prompt.append((mind.asked_at - said - DEBOUNCE_S) * 1000)
        await anyio.sleep(0.02)
        mind.go.set()
        # Measured from the moment when the model completes the statement until the message arrives
        # at the peer. The model and the peer each read the clock when it happens. So the time until
        # this task runs again is not included.
        to_wire.append(((await peer.next_send()).at - mind.complete_at) * 1000)
        await anyio.sleep(0.4)
    return to_prompt[1:], to_wire[1:]


async def _open_first_page(bot: BotProcess) -> float:
    """Follow the login link that the bot printed. Returns the seconds until the console's first
    page has arrived. In this time the bot imports and makes its pages."""
    links = re.findall(r"http://\S+/\?token=\S+", bot.log)
    began = time.perf_counter()
    async with httpx.AsyncClient(trust_env=False, timeout=60) as browser:
        await browser.get(links[0])
        page = await browser.get(f"{bot.address}/ui/")
        assert page.status_code == 200, page.status_code
    return time.perf_counter() - began


async def _flood(bot: BotProcess, peer: OneBotPeer) -> float:
    """Return how many messages per second the bot stores, if none is addressed to the bot."""
    before = await _count(bot)
    began = time.perf_counter()
    for number in range(FLOOD):
        await peer.say_in_group(40000 + number % 50, 10001, f"small talk {number}")
    await _stored(bot, before + FLOOD)
    return FLOOD / (time.perf_counter() - began)


async def _stored(bot: BotProcess, wanted: int) -> None:
    with anyio.fail_after(60):
        while await _count(bot) < wanted:  # noqa: ASYNC110 - another process's table
            await anyio.sleep(0.01)


async def _count(bot: BotProcess) -> int:
    async with StoreLook(bot.data, os.environ.get("NEKRO_DATABASE_URL", "")) as database:
        (count,) = await database.column("SELECT count(*) FROM messages WHERE author = 'person'")
    return int(count)
