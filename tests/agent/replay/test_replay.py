"""A turn is repeated without effects, with another model, persona or mode."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.agent.replay.replay import ReplayChanges, ReplayRefused, TurnReplayer
from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import plain_text
from nekro_core.llm.model import ModelProfile, Price
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.host.hooks import PromptInjection
from tests.agent.bot import GROUP, LIN, Bot, answer, fence, kind_of, running_bot, until
from tests.agent.conftest import BoxCache
from tests.agent.erase import erase
from tests.agent.native import call, calls

ran: list[str] = []
"""The arguments of each call of the tests' plugin, in order."""


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


async def look_up(_ctx: AgentCtx, word: str) -> dict[str, object]:
    """Look up a word.

    Args:
        word: The word.
    """
    ran.append(word)
    return {"word": word, "meanings": [1, 2]}


@kind_of("behavior")
async def remember(_ctx: AgentCtx, what: str) -> str:
    """Remember."""
    ran.append(what)
    return f"remembered {what}"


TOOLS = [look_up, remember]


def other(*replies: Any, **profile: Any) -> ScriptedModel:
    """Make another model than the one of the repeated turn."""
    return ScriptedModel(
        [*replies],
        profile=ModelProfile(name="other", functions=True, price=Price(prompt=1e6), **profile),
    )


async def everything(bot: Bot) -> dict[str, int]:
    """Count the rows of each table."""
    database = bot.store.erasing._database
    tables = await database.read("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {
        row["name"]: int((await database.read(f"SELECT COUNT(*) AS n FROM {row['name']}"))[0]["n"])
        for row in tables
    }


async def test_the_same_code_gets_its_recorded_results_and_no_handler_runs(
    folder: Path, boxes: BoxCache
) -> None:
    code = fence("found = look_up('tea')\nremember(what='it')\nsend_channel_message(str(found))")
    async with running_bot(folder, boxes, ScriptedModel([code]), tools=TOOLS) as bot:
        bot.plugins.injections = (PromptInjection("weather", "It rains."),)
        said = await bot.ask("what is tea?")
        assert ran == ["tea", "it"]
        bot.plugins.injections = (PromptInjection("weather", "The sun shines."),)
        before, turn = await everything(bot), await bot.last_turn()
        model = other(code)
        result = await TurnReplayer(bot.services).replay(turn.turn_id, ReplayChanges(model=model))
        after = await everything(bot)
    assert ran == ["tea", "it"]
    assert (
        [plain_text(each) for each in result.sends]
        == said
        == ["{'word': 'tea', 'meanings': [1, 2]}"]
    )
    assert [(each.name, each.answered) for each in result.calls] == [
        ("look_up", "recorded"),
        ("remember", "recorded"),
        ("send_channel_message", "recorded"),
    ]
    assert len(bot.said()) == 1, "the replay must send nothing"
    changed = {name for name in after if after[name] != before[name]}
    assert changed - {"sqlite_sequence"} == {"model_uses"}
    assert result.stop == "finished"
    assert result.model == "other"
    assert result.usage.cost > 0
    (prompt,) = result.prompts
    assert prompt.exact
    assert any(each.text == "[weather]\nIt rains." for each in prompt.sections)
    assert [each.kind for each in prompt.sections].count("history") == 1


async def test_a_replay_shows_a_new_message_and_refuses_calls_that_were_not_recorded(
    folder: Path, boxes: BoxCache
) -> None:
    first = fence("look_up('tea')\nsend_channel_message('hot')")
    again = [fence("look_up(word='coffee')"), answer("cold"), "plain words"]
    async with running_bot(folder, boxes, ScriptedModel([first]), tools=TOOLS) as bot:
        await bot.ask("tea?")
        turn = await bot.last_turn()
        model = other(*again)
        result = await TurnReplayer(bot.services).replay(turn.turn_id, ReplayChanges(model=model))
    assert [each.answered for each in result.calls] == ["not_replayed", "shown"]
    assert [plain_text(each) for each in result.sends] == ["cold"]
    assert "not replayed" in str(model.requests[1].messages)
    assert ran == ["tea"]
    assert bot.said() == ["hot"]


async def test_a_turn_is_repeated_in_the_other_mode_and_with_another_persona(
    folder: Path, boxes: BoxCache
) -> None:
    first = fence("print(look_up('tea')['word'])")
    model = other(calls(call("look_up", word="tea")), ScriptedAnswer(chunks=["it is tea"]))
    async with running_bot(
        folder, boxes, ScriptedModel([first, answer("tea")]), tools=TOOLS
    ) as bot:
        await bot.ask("tea?")
        turn = await bot.last_turn()
        changes = ReplayChanges(model=model, mode="tools", persona="a pirate")
        result = await TurnReplayer(bot.services).replay(turn.turn_id, changes)
    assert result.mode == "tools"
    assert [each.answered for each in result.calls] == ["recorded"]
    assert [plain_text(each) for each in result.sends] == ["it is tea"]
    assert "a pirate" in str(model.requests[0].messages[0])
    assert "a pirate" not in str(bot.model.requests[0].messages[0])
    assert ran == ["tea"]


async def test_later_messages_are_not_shown_and_files_are_copies(
    folder: Path, boxes: BoxCache
) -> None:
    first = [fence("open('note.txt', 'w').write('one')\nsend_channel_message('kept')"), answer("x")]
    again = fence(
        "open('other.txt', 'w').write('two')\nsend_channel_message(open('note.txt').read())"
    )
    look = fence("import os\nsend_channel_message(str(sorted(os.listdir('.'))))")
    async with running_bot(folder, boxes, ScriptedModel([*first, look])) as bot:
        await bot.ask("keep a note", GROUP, to_bot=True)
        turn = await bot.last_turn(GROUP)
        await bot.ask("a later message", GROUP, to_bot=True)
        model = other(again)
        result = await TurnReplayer(bot.services).replay(turn.turn_id, ReplayChanges(model=model))
        assert [plain_text(each) for each in result.sends] == ["one"]
        assert "a later message" not in str(model.requests[0].messages)
        assert (await bot.ask("which files?", GROUP, to_bot=True)) == ["['note.txt']"]


async def test_a_replay_can_be_cancelled_and_its_cost_is_counted(
    folder: Path, boxes: BoxCache
) -> None:
    slow = ScriptedAnswer(chunks=["```python\n", "send_channel_message('a')\n", 60.0])
    async with running_bot(folder, boxes, ScriptedModel([answer("a")])) as bot:
        await bot.ask("hello")
        turn = await bot.last_turn()
        model = other(slow)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                TurnReplayer(bot.services).replay, turn.turn_id, ReplayChanges(model=model)
            )
            await until(lambda: bool(model.open_streams))
            await anyio.sleep(0.2)
            tasks.cancel_scope.cancel()
        used = await bot.store.model_uses.usage(since=0.0, plugin="operator")
        assert used.completion_tokens > 0
        assert bot.services.boxes.warm <= 1


async def test_a_turn_that_cannot_be_repeated_is_refused(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(
        folder, boxes, ScriptedModel([answer("a")]), settings=AgentSettings()
    ) as bot:
        replayer = TurnReplayer(bot.services)
        with pytest.raises(ReplayRefused, match="there is no turn 7"):
            await replayer.replay(7)
        await bot.ask("hello")
        turn = await bot.last_turn()
        await bot.store.erasing.forget_record(turn.trigger_seq)
        with pytest.raises(ReplayRefused, match="no longer stored"):
            await replayer.replay(turn.turn_id)
        assert bot.said(LIN) == ["a"]


async def test_a_replay_after_an_erasure_lacks_the_erased_words_and_says_so(
    folder: Path, boxes: BoxCache
) -> None:
    secret, erased = "vermilion umbrella", "zaphod4044"
    code = fence("found = look_up('tea')\nsend_channel_message('done')")
    async with running_bot(folder, boxes, ScriptedModel([code, code]), tools=TOOLS) as bot:
        bot.plugins.injections = (PromptInjection("memory", f"Zaphod4044 likes a {secret}."),)
        await bot.say(secret, GROUP, user=erased)
        await bot.ask("what did he say?", GROUP, to_bot=True, user="anne7")
        turn = await bot.last_turn(GROUP)
        model = other(code)
        await TurnReplayer(bot.services).replay(turn.turn_id, ReplayChanges(model=model))
        assert secret in str(model.requests[0].messages)
        await erase(bot, GROUP, erased)
        model = other(code, answer("done"))
        result = await TurnReplayer(bot.services).replay(turn.turn_id, ReplayChanges(model=model))
        for trace in (secret, erased, "Zaphod4044"):
            assert trace not in str(model.requests)
        assert "what did he say?" in str(model.requests[0].messages), (
            "messages of other people stay"
        )
        assert [each for each in result.notes if "memory" in each and "no longer stored" in each]
        assert [(each.name, each.answered) for each in result.calls] == [
            ("look_up", "not_replayed"),
            ("send_channel_message", "shown"),
        ]
        assert all(each.exact for each in result.prompts), "what the repeated turn showed is whole"

        # When the person who woke the turn is erased, nothing is left to repeat.
        await erase(bot, GROUP, "anne7")
        with pytest.raises(ReplayRefused):
            await TurnReplayer(bot.services).replay(turn.turn_id)
