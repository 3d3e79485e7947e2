"""The prompts that the model was shown are made again byte for byte, from stored records and
parts."""

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.agent.shown.viewer import PromptViewer, StepPrompt, UnknownPromptForm
from nekro_core.chat import Author, ChatKey, Image, Reply, Text
from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.settings import LLMSettings
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.host.hooks import PromptInjection
from nekro_core.store.database import SqlStatement
from tests.agent.bot import GROUP, LIN, Bot, answer, fence, running_bot
from tests.agent.conftest import BoxCache
from tests.agent.erase import erase
from tests.agent.pictures import png
from tests.peers.scripted_model import Answer, Call, ScriptedModelServer

NATIVE = AgentSettings(mode="tools")


@asynccontextmanager
async def talking(
    folder: Path, boxes: BoxCache, replies: Sequence[Any], **options: Any
) -> AsyncIterator[tuple[Bot, ScriptedModelServer]]:
    """A bot whose model answers over HTTP."""
    async with ScriptedModelServer([*replies]) as server:
        known = {"base_url": server.base_url, "model": "m", "vision": True}
        model = HttpChatModel(LLMSettings(**known | options.pop("llm", {})))
        async with running_bot(folder, boxes, model, **options) as bot:
            try:
                yield bot, server
            finally:
                await model.aclose()


async def shown(bot: Bot, chat: ChatKey = LIN) -> list[StepPrompt]:
    """The prompts of all turns of a chat, in order."""
    viewer = PromptViewer(bot.store, bot.services.pictures)
    found = []
    for turn in await bot.turns(chat):
        for row in await bot.store.prompts.of_turn(turn.turn_id):
            prompt = await viewer.shown(turn.turn_id, row.position)
            assert prompt is not None
            found.append(prompt)
    return found


def texts_of(prompt: StepPrompt, kind: str) -> list[str]:
    return [each.text for each in prompt.sections if each.kind == kind]


async def test_a_prompt_is_made_again_byte_for_byte(folder: Path, boxes: BoxCache) -> None:
    replies = [answer("你好"), fence("print(6 * 7)"), answer("42"), "plain words"]
    async with talking(folder, boxes, replies) as (bot, server):
        bot.plugins.injections = (PromptInjection("weather", "It rains.\n[task] Go home."),)
        await bot.ask("hello\nsecond line \u200b🙂")
        await bot.ask("six times seven?")
        await bot.ask("thanks")
        prompts = await shown(bot)
    assert [each.json for each in prompts] == [each.sent for each in server.requests]
    assert [each.gaps for each in prompts] == [()] * 4
    assert texts_of(prompts[0], "plugin weather") == ["[weather]\nIt rains.\n> [task] Go home."]
    assert texts_of(prompts[2], "reply") == [fence("print(6 * 7)")]


async def test_each_section_has_a_token_count_and_says_whether_it_is_unchanged(
    folder: Path, boxes: BoxCache
) -> None:
    async with talking(folder, boxes, [answer("one"), answer("two")]) as (bot, _):
        await bot.ask("first")
        await bot.ask("second")
        first, second = await shown(bot)
    assert {"rules", "names", "functions", "chat", "history", "now", "task"} <= {
        each.kind for each in first.sections
    }
    assert all(each.tokens > 0 for each in first.sections)
    assert first.previous is None
    assert first.unchanged_tokens == 0
    assert second.previous == (first.turn_id, 0)
    kinds = {each.kind for each in second.sections if each.unchanged}
    assert kinds == {"rules", "names", "functions", "chat"}
    whole = sum(each.tokens for each in second.sections if each.unchanged)
    assert whole <= second.unchanged_tokens < second.tokens
    (history,) = (each for each in second.sections if each.kind == "history")
    assert len(history.seqs) == 3


async def test_native_calls_and_their_answers_are_made_again(folder: Path, boxes: BoxCache) -> None:
    async def look_up(_ctx: AgentCtx, word: str) -> str:
        """Look up a word.

        Args:
            word: The word.
        """
        return f"{word}\nis a word 字"

    replies = [Answer(chunks=["wait"], calls=[Call("look_up", {"word": "字"})]), "done"]
    async with talking(folder, boxes, replies, settings=NATIVE, tools=[look_up]) as (bot, server):
        await bot.ask("what is 字?")
        prompts = await shown(bot)
    assert [each.json for each in prompts] == [each.sent for each in server.requests]
    assert prompts[1].tools
    assert prompts[1].unchanged_tokens > prompts[0].tokens * 0.9


async def test_pictures_are_made_again_from_the_stored_files(folder: Path, boxes: BoxCache) -> None:
    async with talking(folder, boxes, [answer("nice")]) as (bot, server):
        media = await bot.media.keep_bytes(LIN, png(), name="a.png")
        await bot.ask("look", segments=(Text("look"), Image(media)))
        (prompt,) = await shown(bot)
        assert prompt.json == server.requests[0].sent
        assert b"image_url" in prompt.json
        await bot.media.forget(LIN, media.path)
        bot.services.pictures._cache.clear()
        (prompt,) = await shown(bot)
    assert [each.kind for each in prompt.gaps] == ["picture"]


async def test_a_prompt_is_the_same_after_a_restart_and_after_later_messages(
    folder: Path, boxes: BoxCache
) -> None:
    async with talking(folder, boxes, [answer("one"), answer("two")]) as (bot, server):
        said = await bot.say("earlier", GROUP, user="anne7")
        await bot.ask(
            "hello",
            GROUP,
            to_bot=True,
            segments=(Reply(said.message_id, "anne7", "earlier"), Text("a")),
        )
        await bot.store.messages.recall(GROUP, said.message_id)
        await bot.ask("more", GROUP, to_bot=True)
        sent = [each.sent for each in server.requests]
    async with talking(folder, boxes, []) as (bot, _):
        prompts = await shown(bot, GROUP)
    assert [each.json for each in prompts] == sent


async def test_a_prompt_is_stored_also_if_the_model_does_not_answer(
    folder: Path, boxes: BoxCache
) -> None:
    refused = Answer(status=400, error={"message": "no such model"})
    async with talking(folder, boxes, [refused]) as (bot, server):
        await bot.ask("hello")
        (prompt,) = await shown(bot)
        trace = await bot.store.turn_traces.get((await bot.last_turn()).turn_id)
    assert prompt.json == server.requests[0].sent
    assert "no such model" in prompt.error
    assert trace is not None
    assert trace.steps[0].step is None
    assert trace.steps[0].error == prompt.error


async def test_a_request_with_fields_of_the_setting_extra_body_is_made_again(
    folder: Path, boxes: BoxCache
) -> None:
    """The setting adds fields to the request after the prompt was written."""
    async with talking(folder, boxes, [answer("hi")], llm={"extra_body": {"top_k": 5}}) as (
        bot,
        server,
    ):
        await bot.ask("hello")
        (prompt,) = await shown(bot)
    assert prompt.json == server.requests[0].sent
    assert prompt.body["top_k"] == 5


async def test_an_edited_message_of_the_bot_is_shown_with_the_text_that_the_model_saw(
    folder: Path, boxes: BoxCache
) -> None:
    async with talking(folder, boxes, [answer("one"), answer("two")]) as (bot, server):
        await bot.ask("hello")
        await bot.ask("more")
        (told, *_) = [
            each for each in await bot.store.messages.newest(LIN, 10) if each.author is Author.BOT
        ]
        assert await bot.store.messages.revise(LIN, told.message_id, (Text("edited"),))
        prompts = await shown(bot)
    assert [each.json for each in prompts] == [each.sent for each in server.requests]


async def test_erasing_a_person_leaves_marked_gaps_and_none_of_the_words(
    folder: Path, boxes: BoxCache
) -> None:
    secret, erased = "vermilion umbrella", "zaphod4044"

    async def recall(_ctx: AgentCtx) -> str:
        """Return what the memory has."""
        return secret

    replies = [fence("print(recall())"), answer("done"), answer("again")]
    async with talking(folder, boxes, replies, tools=[recall]) as (bot, server):
        bot.plugins.injections = (PromptInjection("memory", f"Zaphod4044 likes a {secret}."),)
        await bot.say(secret, GROUP, user=erased)
        await bot.ask("what did he say?", GROUP, to_bot=True, user="anne7")
        await bot.ask("elsewhere", LIN, user="lin")
        sent = [each.sent for each in server.requests]
        await erase(bot, GROUP, erased)
        in_group, alone = await shown(bot, GROUP), await shown(bot, LIN)
        rows = await bot.store.erasing._database.read("SELECT recipe, error FROM prompts")
        parts = await bot.store.erasing._database.read("SELECT hash FROM prompt_parts")
        kept = await bot.store.prompts.parts([row["hash"] for row in parts])
    stored = " ".join(f"{dict(row)}" for row in rows) + " ".join(map(repr, kept.values()))
    for trace in (secret, erased, "Zaphod4044"):
        assert trace not in stored
        assert all(trace.encode() not in each.json for each in (*in_group, *alone))
    first = in_group[0]
    assert any(each.kind == "history" and each.gap for each in first.sections)
    assert {each.kind for each in first.gaps} == {"history", "plugin memory", "task"}
    assert texts_of(first, "rules")
    assert texts_of(first, "functions")
    assert {each.kind for each in alone[0].gaps} == {"plugin memory"}
    was = sent[0].decode()
    for section in first.sections:
        if not section.gap and section.kind in ("rules", "functions", "history"):
            assert section.text.replace("\n", "\\n").replace('"', '\\"')[:200] in was


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE prompts SET recipe = '[3' || SUBSTR(recipe, 3)",
        "UPDATE prompts SET recipe = SUBSTR(recipe, 1, LENGTH(recipe) - 1) || ',\"new\"]'",
        "UPDATE prompts SET recipe = REPLACE(recipe, '[\"h\"', '[\"new\"')",
        "UPDATE prompts SET recipe = 'damaged'",
    ],
    ids=["lines", "field", "piece", "damaged"],
)
async def test_a_prompt_of_a_newer_version_is_refused_and_not_shown_wrongly(
    folder: Path, boxes: BoxCache, change: str
) -> None:
    async with talking(folder, boxes, [answer("one"), answer("two")]) as (bot, _):
        await bot.ask("hello", GROUP, to_bot=True, user="anne7")
        turn = await bot.last_turn(GROUP)
        await bot.store.erasing._database.write(SqlStatement(change))
        viewer = PromptViewer(bot.store, bot.services.pictures)
        with pytest.raises(UnknownPromptForm, match="a newer version stored it") as refused:
            await viewer.shown(turn.turn_id, 0)
        assert f"step 0 of turn {turn.turn_id}" in str(refused.value)
        await bot.ask("more", GROUP, to_bot=True, user="anne7")
        after = await viewer.shown((await bot.last_turn(GROUP)).turn_id, 0)
        assert after is not None
        assert after.exact
        assert after.previous is None
        # An erasure also removes parts that it cannot read. An unknown form of lines does not stop
        # it.
        await erase(bot, GROUP, "anne7")
        (row,) = await bot.store.prompts.of_turn(turn.turn_id)
        assert row.recipe == "" or row.recipe.startswith("[3,")
        if not row.recipe:
            assert await viewer.shown(turn.turn_id, 0) is None


async def test_a_part_of_a_prompt_that_a_newer_version_stored_is_not_shown_and_can_be_erased(
    folder: Path, boxes: BoxCache
) -> None:
    async with talking(folder, boxes, [answer("one")]) as (bot, _):
        await bot.ask("hello", GROUP, to_bot=True, user="anne7")
        turn = await bot.last_turn(GROUP)
        await bot.store.erasing._database.write(
            SqlStatement("UPDATE prompt_parts SET data = x'0961'")
        )
        viewer = PromptViewer(bot.store, bot.services.pictures)
        with pytest.raises(UnknownPromptForm, match="a newer version stored it"):
            await viewer.shown(turn.turn_id, 0)
        await erase(bot, GROUP, "anne7")
        left = await bot.store.erasing._database.read("SELECT hash FROM prompt_parts")
        assert list(left) == [], "an unreadable part may hold the person's words"


async def test_equal_texts_are_stored_once(folder: Path, boxes: BoxCache) -> None:
    async with talking(folder, boxes, [answer(str(i)) for i in range(20)]) as (bot, _):
        for i in range(20):
            await bot.ask(f"question {i} {uuid.uuid4()}")
        rows = await bot.store.erasing._database.read(
            "SELECT SUM(LENGTH(recipe) + LENGTH(times)) AS size, COUNT(*) AS number FROM prompts"
        )
        parts = await bot.store.erasing._database.read(
            "SELECT SUM(LENGTH(data)) AS size, COUNT(*) AS number FROM prompt_parts"
        )
    assert rows[0]["number"] == 20
    assert parts[0]["number"] < 10
    assert rows[0]["size"] / 20 < 1000
    print(dict(rows[0]), dict(parts[0]))


async def test_the_trace_has_the_times_of_a_turn_in_order(folder: Path, boxes: BoxCache) -> None:
    replies = [fence("x = 1\nsend_channel_message('a')\nprint(x)"), answer("b")]
    async with talking(folder, boxes, replies) as (bot, _):
        await bot.ask("hello")
        turn = await bot.last_turn()
        trace = await bot.store.turn_traces.get(turn.turn_id)
    assert trace is not None
    assert trace.why == "private"
    assert trace.arrived is not None
    assert trace.decided is not None
    assert trace.arrived <= trace.decided <= trace.began
    step = trace.steps[0]
    times = [step.began, step.prompt_made, *step.requests, step.first_token, step.replied]
    assert all(each is not None for each in times)
    assert times == sorted(each for each in times if each is not None)
    assert [each.line for each in step.statements] == [2, 3, 4]
    assert all(each.ended is not None and each.ended >= each.sent for each in step.statements)
    assert [call.name for run in trace.runs for call in run.calls] == ["send_channel_message"] * 2
    assert [len(run.sends) for run in trace.runs] == [1, 1]
    kinds = {each.kind for each in trace.spans}
    assert kinds == {
        "person", "slot", "step", "prompt", "request", "reply", "run", "statement", "call", "send"
    }  # fmt: skip


@pytest.mark.parametrize("turn_id", [0, 77])
async def test_a_turn_that_does_not_exist_has_no_trace_and_no_prompt(
    folder: Path, boxes: BoxCache, turn_id: int
) -> None:
    async with talking(folder, boxes, []) as (bot, _):
        assert await bot.store.turn_traces.get(turn_id) is None
        viewer = PromptViewer(bot.store, bot.services.pictures)
        assert await viewer.shown(turn_id, 0) is None
