"""A process is killed while the words of a reply are sent. The next process repeats nothing."""

import dataclasses
import random
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.chat import Delivery, DeliveryState, Receipt, Text
from nekro_core.delivery.adapter import PlatformMessage
from nekro_core.llm.model import ChatRequest
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from tests.agent.bot import LIN, SOON_SETTLED, running_bot, text_of
from tests.agent.conftest import BoxCache
from tests.delivery.outbound.killed_processes import watched
from tests.delivery.outbound.test_unknown_deliveries import AskedAdapter, Platform

LONG = "all of this is part of the story, " * 5
PARTS = [f"{name}: {LONG}end." for name in ("One", "Two", "Three")]


class Screen(Platform):
    """A platform that records what people see now and what they saw after each earlier change."""

    def __init__(self, shows: list[PlatformMessage]) -> None:
        super().__init__(shows=[*shows])
        self.states = [[*shows]]

    def show(self, text: str, *, own: bool = True) -> str:
        name = super().show(text, own=own)
        self.states.append([*self.shows])
        return name

    def change(self, name: str, text: str) -> None:
        self.shows = [
            dataclasses.replace(each, segments=(Text(text),)) if each.message_id == name else each
            for each in self.shows
        ]
        self.states.append([*self.shows])


class ScreenAdapter(AskedAdapter):
    """A platform that can be asked for its messages."""


class EditingScreenAdapter(AskedAdapter):
    """A platform that can be asked for its messages, and that can edit them."""

    def __init__(self, platform: Screen) -> None:
        super().__init__(platform)
        self._screen = platform
        self._capabilities = dataclasses.replace(self._capabilities, edit_every_s=0.0)

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        (text,) = delivery.segments
        assert isinstance(text, Text)
        await anyio.sleep(0)
        self._screen.change(message_id, text.text)
        await anyio.sleep(0)
        return Receipt(state=DeliveryState.SENT, message_id=message_id)


async def slowly(text: str) -> AsyncIterator[str]:
    for line in text.splitlines(keepends=True):
        yield line
        await anyio.sleep(0.12)


def goes_on(request: ChatRequest) -> ScriptedAnswer:
    """A model that writes the parts of the story that its prompt does not show."""
    prompt = text_of(request, from_message=1)
    left = [part for part in PARTS if part not in prompt]
    return ScriptedAnswer(chunks=slowly("\n\n".join(left) or "[no reply]"))


def begins_again(_: ChatRequest) -> ScriptedAnswer:
    """A model that always writes the whole story."""
    return ScriptedAnswer(chunks=slowly("\n\n".join(PARTS)))


@pytest.mark.parametrize("tries", [3, pytest.param(20, marks=[pytest.mark.long, pytest.mark.slow])])
@pytest.mark.parametrize("script", [goes_on, begins_again])
@pytest.mark.parametrize("adapted", [ScreenAdapter, EditingScreenAdapter])
async def test_a_kill_at_any_moment_leads_to_the_whole_story_once(
    folder: Path, boxes: BoxCache, tmp_path: Path, script, adapted, tries: int
) -> None:
    screen = Screen([])
    model = ScriptedModel(script)
    async with running_bot(folder, boxes, model, adapter=adapted(screen)) as bot:
        await bot.outbox.send(LIN, (Text("welcome"),))
        first = len(screen.states)
        async with watched(folder, lambda: len(screen.states)) as moments:
            await bot.ask("a story", message_id=screen.show("a story", own=False))
    assert len(screen.states) > first + 2  # the story was sent in several steps
    story = "\n\n".join(PARTS).split()
    chance = random.Random(tries)
    inside = [each for each in moments if "a story" in each.messages()]
    for number, moment in enumerate(chance.sample(inside, min(tries, len(inside)))):
        with tempfile.TemporaryDirectory(dir=tmp_path) as again:
            saw = Screen(screen.states[moment.seen - 1])
            before = [each for each in saw.shows if each.own]
            second = ScriptedModel(script)
            left = moment.put(Path(again) / str(number))
            async with running_bot(
                left, boxes, second, adapter=adapted(saw), delivery=SOON_SETTLED, recover=True
            ) as bot:
                with anyio.fail_after(30):
                    while True:
                        idle = not bot.sessions.at_work(LIN)
                        undecided = await bot.store.deliveries.undecided(since=0)
                        if idle and not undecided and not any(t.running for t in await bot.turns()):
                            break
                        await anyio.sleep(0.02)
        own = [each.segments[0] for each in saw.shows if each.own]
        texts = " ".join(each.text for each in own if isinstance(each, Text)).split()
        assert texts == ["welcome", *story], (number, before)
