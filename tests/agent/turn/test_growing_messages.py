"""On Telegram, Discord and Matrix, the words of a reply are one message that grows by edits while
the model writes."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import plain_text
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from tests.adapters.matrix.conftest import server
from tests.agent.bot import fence, running_bot, until
from tests.agent.conftest import BoxCache
from tests.agent.native import TOOLS_MODE
from tests.agent.turn.growing_screens import (
    ALL,
    SCREENS,
    Opener,
    Screen,
    TelegramScreen,
    matrix,
    telegram,
)
from tests.agent.turn.test_live_words import FIRST, SECOND, THIRD, Told

__all__ = ["server"]

LINES = [f"{number}. {THIRD}" for number in range(1, 9)]
EARLY_S = 0.25
"""Seconds by which the measured time between two edits may be shorter than the pause that the
platform demands. The test may note the first of the two some time after it arrived."""


@pytest.fixture
def opener(request: pytest.FixtureRequest) -> Opener:
    """Opens a platform. This fixture is not asynchronous, since it asks for one that is."""
    if request.param == "matrix":
        return partial(matrix, server=request.getfixturevalue("server"))
    return SCREENS[request.param]


@pytest.fixture
async def screen(opener: Opener, tmp_path: Path) -> AsyncIterator[Screen]:
    (tmp_path / "platform").mkdir()
    async with opener(tmp_path / "platform") as opened:
        yield opened


def words(text: str) -> list[str]:
    return text.split()


everywhere = pytest.mark.parametrize("opener", ALL, indirect=True)


@everywhere
@pytest.mark.parametrize("settings", [AgentSettings(), TOOLS_MODE], ids=["code", "tools"])
async def test_the_paragraphs_are_one_message_that_grows_at_the_pace_of_the_platform(
    folder: Path, boxes: BoxCache, screen: Screen, settings: AgentSettings
) -> None:
    told, chat = Told(), screen.chat
    model = ScriptedModel([ScriptedAnswer(chunks=told.stream())])
    every_s = screen.adapter.capabilities(chat).edit_every_s
    async with running_bot(
        folder, boxes, model, settings=settings, adapter=screen.adapter, account=screen.account
    ) as bot:
        async with bot.turn(chat):
            await bot.say("Nekro, why is the sky blue?", chat)
            await told.write(FIRST + "\n\n" + SECOND[:1])
            await until(lambda: len(screen.states) == 1)
            assert [words(each) for each in screen.states[0].texts] == [words(FIRST)]
            assert model.open_streams == 1  # the model still writes
            await told.write(SECOND[1:] + "\n\n")
            for line in LINES:
                await told.write(line + "\n")
                await anyio.sleep(every_s / 4)
            await until(lambda: len(screen.states) >= 2)
            assert model.open_streams == 1
            told.end()
        whole = [words(f"{FIRST} {SECOND} " + " ".join(LINES))]
        await until(lambda: [words(each) for each in screen.states[-1].texts] == whole)
        assert {len(state.texts) for state in screen.states} == {1}
        assert 3 <= len(screen.states) <= 5, "not each line is an edit"
        for earlier, later in zip(screen.states, screen.states[1:], strict=False):
            assert later.at - earlier.at >= every_s - EARLY_S
        (row,) = await bot.store.deliveries.of_turn((await bot.last_turn(chat)).turn_id)
        record = await bot.store.messages.get(row.record_seq)
        assert record is not None
        assert [words(plain_text(record.segments))] == whole


@everywhere
async def test_code_after_the_words_leaves_the_words_in_the_chat_and_the_next_prompt_says_so(
    folder: Path, boxes: BoxCache, screen: Screen
) -> None:
    told, chat = Told(), screen.chat
    model = ScriptedModel([told.stream(), fence("send_channel_message('The sum is 42.')")])
    async with running_bot(
        folder, boxes, model, adapter=screen.adapter, account=screen.account
    ) as bot:
        async with bot.turn(chat):
            await bot.say("Nekro, why is the sky blue?", chat)
            await told.write(FIRST + "\n\nIn")
            await until(lambda: len(screen.states) == 1)
            await told.write(SECOND[2:] + "\n\n", fence("print(6 * 7)"))
            told.end()
        await until(lambda: len(screen.states[-1].texts) == 2)
        assert [words(each) for each in screen.states[-1].texts] == [
            words(FIRST),
            words("The sum is 42."),
        ]
        report = bot.prompt()
        assert "[note] Words before your block were sent while you wrote them" in report
        assert '+ sent: "The sky is blue because air' in report


@everywhere
async def test_a_refused_edit_leads_to_a_second_message(
    folder: Path, boxes: BoxCache, screen: Screen
) -> None:
    told, chat = Told(), screen.chat
    model = ScriptedModel([told.stream()])
    async with running_bot(
        folder, boxes, model, adapter=screen.adapter, account=screen.account
    ) as bot:
        async with bot.turn(chat):
            await bot.say("Nekro, why is the sky blue?", chat)
            await told.write(FIRST + "\n\nI")
            await until(lambda: len(screen.states) == 1)
            screen.refuse_edits()
            await told.write(SECOND[1:] + "\n\n", THIRD)
            told.end()
        await until(lambda: len(screen.states[-1].texts) == 2)
        assert [words(each) for each in screen.states[-1].texts] == [
            words(FIRST),
            words(f"{SECOND} {THIRD}"),
        ]


@everywhere
async def test_a_platform_that_asks_to_wait_gets_the_edit_later(
    folder: Path, boxes: BoxCache, screen: Screen
) -> None:
    told, chat = Told(), screen.chat
    model = ScriptedModel([told.stream()])
    async with running_bot(
        folder, boxes, model, adapter=screen.adapter, account=screen.account
    ) as bot:
        async with bot.turn(chat):
            await bot.say("Nekro, why is the sky blue?", chat)
            await told.write(FIRST + "\n\nI")
            await until(lambda: len(screen.states) == 1)
            screen.throttle_next_edit()
            await told.write(SECOND[1:] + "\n\n", THIRD)
            told.end()
        whole = [words(f"{FIRST} {SECOND} {THIRD}")]
        await until(lambda: [words(each) for each in screen.states[-1].texts] == whole)


@everywhere
async def test_what_does_not_fit_into_one_message_follows_in_another(
    folder: Path, boxes: BoxCache, screen: Screen
) -> None:
    told, chat = Told(), screen.chat
    most = screen.adapter.capabilities(chat).text_length
    beginning = (SECOND + " ") * (most * 2 // 3 // len(SECOND))
    rest = (THIRD + " ") * (most * 2 // 3 // len(THIRD))
    model = ScriptedModel([told.stream()])
    async with running_bot(
        folder, boxes, model, adapter=screen.adapter, account=screen.account
    ) as bot:
        async with bot.turn(chat):
            await bot.say("Nekro, why is the sky blue?", chat)
            await told.write(beginning + "\n\nO")
            await until(lambda: len(screen.states) == 1)
            await told.write(rest[1:])
            told.end()
        await until(lambda: len(screen.states[-1].texts) == 2)
        texts = screen.states[-1].texts
        assert words(" ".join(texts)) == words(f"{beginning} {rest}")
        assert all(len(text) <= most for text in texts)


async def test_the_words_of_an_edit_whose_answer_was_lost_are_not_seen_twice(
    folder: Path, boxes: BoxCache, tmp_path: Path
) -> None:
    (tmp_path / "platform").mkdir()
    async with telegram(tmp_path / "platform") as screen:
        await _lose_the_answer(folder, boxes, screen)


async def _lose_the_answer(folder: Path, boxes: BoxCache, screen: TelegramScreen) -> None:
    told, chat = Told(), screen.chat
    model = ScriptedModel([told.stream()])
    async with running_bot(
        folder, boxes, model, adapter=screen.adapter, account=screen.account
    ) as bot:
        async with bot.turn(chat):
            await bot.say("Nekro, why is the sky blue?", chat)
            await told.write(FIRST + "\n\nI")
            await until(lambda: len(screen.states) == 1)
            screen.cut_next_edit()
            await told.write(SECOND[1:])
            told.end()
        assert [words(each) for each in screen.states[-1].texts] == [words(f"{FIRST} {SECOND}")]
        (row,) = await bot.store.deliveries.of_turn((await bot.last_turn(chat)).turn_id)
        record = await bot.store.messages.get(row.record_seq)
        assert record is not None
        assert words(plain_text(record.segments)) == words(f"{FIRST} {SECOND}")
