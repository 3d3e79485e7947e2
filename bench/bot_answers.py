"""Measures how soon the bot answers if it does not wait for a person to finish typing.

The figures are: the slowest requests to the model (99th percentile), the first answer in a chat,
and the first answer after the bot has connected. Another figure says how soon a finished paragraph
is sent while the model is still writing the next one.
"""

import itertools
import statistics
import tempfile
import time
from pathlib import Path

import anyio

from bench.bare_bot import echo_bot
from bench.figure import Figure, percentiles
from tests.e2e.bot_process import running_bot
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import Answer, Asked, ScriptedModelServer, pieces

ROUNDS = 200
NEW_CHATS = 30
STARTS = 5
WORD_ROUNDS = 30
PAUSE_S = 0.15
REST_S = 5.0
"""Seconds to wait after the start. By then the bot has finished the work of its start, which takes
processor time."""
TOKEN = "bench-token"


WORDS = "The sky is blue because air scatters short waves of light more than long ones. " * 2
"""A first paragraph that is long enough to be sent before the reply has ended."""


class TimedWordsModel:
    """A model that writes a paragraph, records the time, and writes more after a second."""

    def __init__(self) -> None:
        self.wrote_at: list[float] = []

    def __call__(self, _asked: Asked) -> Answer:
        def note() -> None:
            self.wrote_at.append(time.monotonic())

        return Answer(chunks=[WORDS + "\n\nA", note, 1.0, "nd so on."])


class TimedAnswerModel:
    """A model that sends one message with code, and records when it received each request."""

    def __init__(self) -> None:
        self.asked_at: list[float] = []

    def __call__(self, _asked: Asked) -> Answer:
        self.asked_at.append(time.monotonic())
        return Answer(chunks=pieces('```python\nsend_channel_message("hi")\n```'))


async def figures_of_answers(folder: Path, echo_ms: list[float]) -> list[Figure]:
    """The figures of this module. ``echo_ms`` has the bare echo bot's times in milliseconds."""
    first_echo = statistics.median([await _first_echo() for _ in range(3)])
    mind = TimedAnswerModel()
    async with ScriptedModelServer(mind) as model:
        settings = _settings(model.base_url)
        ids = itertools.count(1).__next__
        async with running_bot(folder, **settings) as bot:
            await anyio.sleep(REST_S)
            async with OneBotPeer("20002", TOKEN, bot.onebot_url) as peer:
                peer.account.ids = ids
                await peer.wait_connected()
                to_model, _ = await _rounds(peer, mind, [30003] * (ROUNDS + 1))
                new = [31000 + number for number in range(NEW_CHATS + 1)]
                _, to_reply = await _rounds(peer, mind, new)
            first = []
            for number in range(STARTS):
                await bot.stop()
                await bot.start()
                async with OneBotPeer("20002", TOKEN, bot.onebot_url) as peer:
                    peer.account.ids = ids
                    await peer.wait_connected()
                    first.append((await _ask(peer, mind, 32000 + number))[1])
    words = await words_as_written(folder / "words")
    p50, p99 = percentiles(echo_ms)
    return [
        Figure(
            name="no debounce: message in -> prompt sent, p99", unit="ms",
            p50=percentiles(to_model)[1], floor=p99, floor_name="bare echo, p99", target=15.0,
        ),
        Figure.of("no debounce: reply in a new chat", "ms", to_reply, p50, "bare echo", 12.0),
        Figure.of(
            "first reply right after connecting", "ms", first, first_echo,
            "bare echo, right after connecting", 80.0,
        ),
        Figure.of("model's first paragraph -> platform", "ms", words, p50, "bare echo", 15.0),
    ]  # fmt: skip


def _settings(base_url: str) -> dict[str, str]:
    return {
        "NEKRO_LLM__BASE_URL": base_url,
        "NEKRO_LLM__MODEL": "scripted",
        "NEKRO_TRIGGER__DEBOUNCE_S": "0",
        "NEKRO_TRIGGER__BURST_TURNS": "0",
        "NEKRO_TRIGGER__HOUR_TURNS": "0",
        "NEKRO_DELIVERY__SENDS_PER_WINDOW": "100000",
        "ONEBOT_ACCESS_TOKEN": TOKEN,
        "LOG_LEVEL": "WARNING",
    }


async def words_as_written(folder: Path) -> list[float]:
    """Return the milliseconds from the model's first paragraph until the platform receives it."""
    mind, found = TimedWordsModel(), []
    await anyio.Path(folder).mkdir(parents=True, exist_ok=True)
    async with (
        ScriptedModelServer(mind) as model,
        running_bot(folder, **_settings(model.base_url)) as bot,
    ):
        await anyio.sleep(REST_S)
        async with OneBotPeer("20002", TOKEN, bot.onebot_url) as peer:
            await peer.wait_connected()
            for _ in range(WORD_ROUNDS + 1):
                await peer.say_in_group(30003, 10001, "a question", at_me=True)
                sent = await peer.next_send()
                found.append((sent.at - mind.wrote_at[-1]) * 1000)
                await peer.next_send()  # the rest of the reply
                await anyio.sleep(PAUSE_S)
    return found[1:]


async def _rounds(
    peer: OneBotPeer, mind: TimedAnswerModel, groups: list[int]
) -> tuple[list[float], list[float]]:
    """Ask a question in each group. Returns the milliseconds from each question until the request
    to the model, and until the reply. The first question is left out."""
    found = []
    for group in groups:
        found.append(await _ask(peer, mind, group))
        await anyio.sleep(PAUSE_S)
    return [model for model, _ in found[1:]], [reply for _, reply in found[1:]]


async def _ask(peer: OneBotPeer, mind: TimedAnswerModel, group: int) -> tuple[float, float]:
    before, said = len(mind.asked_at), time.monotonic()
    await peer.say_in_group(group, 10001, "a question", at_me=True)
    sent = await peer.next_send()
    return (mind.asked_at[before] - said) * 1000, (sent.at - said) * 1000


async def _first_echo() -> float:
    with tempfile.TemporaryDirectory() as folder:
        async with echo_bot(Path(folder)) as (url, _, _), OneBotPeer("20002", None, url) as peer:
            await peer.wait_connected()
            said = time.monotonic()
            await peer.say_in_group(30003, 10001, "a question")
            return ((await peer.next_send()).at - said) * 1000
