"""Plugins have hooks before and after requests to the model. The tests check what hooks can
change."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nekro_core.compat.maibot.formats.prompt_changes import ShownPrompt, with_words
from nekro_core.compat.maibot.formats.prompt_messages import (
    calls_of,
    changed_functions,
    function_dicts,
)
from nekro_core.llm.model import Function, FunctionCall, ImagePart, PromptMessage, TextPart
from nekro_core.testing import Bot
from tests.agent.native import TOOLS_MODE, say
from tests.compat.maibot.plant import plant

HEAD = """
from maibot_sdk import HookHandler, MaiBotPlugin, Tool
class P(MaiBotPlugin):
    async def on_load(self): self.seen = {}
    async def on_unload(self): pass
    async def on_config_update(self, scope, config_data, version): pass
"""
TAIL = """
def create_plugin():
    return P()
"""
CLOCK = f"""{HEAD}
    @HookHandler("maisaka.planner.before_request")
    async def world_clock(self, messages=None, tool_definitions=None, session_id="", **kwargs):
        self.seen["tools"] = [each["function"]["name"] for each in tool_definitions]
        self.seen["last"] = messages[-1]["content"]
        told = [dict(each) for each in messages]
        assert told[-1]["content"].startswith("时间：")
        told[-1]["content"] = "本地时间：noon"
        hidden = [e for e in tool_definitions if e["function"]["name"] != "roll_dice"]
        return {{"modified_kwargs": {{"messages": told, "tool_definitions": hidden}}}}

    @Tool("tea_time", core_tool=True)
    async def tea_time(self, **kwargs): return "now"
{TAIL}"""


def plugin(bot: Bot, name: str) -> Any:
    (kind,) = bot.app.plugins._kinds
    return kind.plugins.find(name).instance


async def test_a_hook_sees_the_time_and_the_tools_while_the_model_writes_code(
    tmp_path: Path,
) -> None:
    plant(tmp_path, CLOCK, plugin_id="ann.clock")
    async with Bot.open(tmp_path) as bot:
        await bot.chat().ask("what time is it?", reply="noon")
        seen = plugin(bot, "ann.clock").seen
        assert {"tea_time", "send_channel_message", "roll_dice"} <= set(seen["tools"])
        assert re.fullmatch(r"时间：\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", seen["last"])
        assert "本地时间：noon" in bot.prompt
        assert "时间：2" not in bot.prompt


async def test_a_hook_hides_a_tool_from_a_model_that_calls_functions(tmp_path: Path) -> None:
    plant(tmp_path, CLOCK, plugin_id="ann.clock")
    async with Bot.open(tmp_path, settings={"nekro_agent": TOOLS_MODE}) as bot:
        await bot.chat().ask("what time is it?", reply=[say("noon")])
        offered = {each.name for each in bot.model.requests[0].functions}
        assert "tea_time" in offered
        assert "roll_dice" not in offered
        assert "roll_dice" in plugin(bot, "ann.clock").seen["tools"]


MOOD = f"""{HEAD}
    @HookHandler("maisaka.planner.before_request", name="a_items")
    async def items(self, items=None, item_schema_version=0, **kwargs):
        assert item_schema_version == 1
        first = next(i for i, each in enumerate(items) if each["item_type"] == "SystemMessageItem")
        new = {{
            "item_type": "SystemMessageItem",
            "meta": {{"item_id": "mine", "logical_turn_id": None, "timestamp": ""}},
            "parts": [{{"type": "text", "text": "BY ITEM: be calm"}}],
        }}
        changed = [*items[: first + 1], new, *items[first + 1 :]]
        return {{"action": "continue", "modified_kwargs": {{**kwargs, "items": changed}}}}

    @HookHandler("maisaka.planner.before_request", name="b_messages")
    async def more(self, messages=None, **kwargs):
        told = [*messages, {{"role": "user", "content": "BY MESSAGE: be short"}}]
        return {{"modified_kwargs": {{"messages": told}}}}

    @HookHandler("maisaka.replyer.before_request")
    async def extra(self, extra_prompt="", session_id="", reply_message_id="", **kwargs):
        assert session_id == "test-private_lin"
        asked = await self.ctx.message.get_by_id(reply_message_id, chat_id=session_id)
        self.seen["asked"] = asked["processed_plain_text"]
        kwargs["extra_prompt"] = extra_prompt + "EXTRA: be glad"
        return {{"action": "continue", "modified_kwargs": kwargs}}

    @HookHandler("maisaka.replyer.before_model_request")
    async def model_request(self, messages=None, **kwargs):
        self.seen["time"] = messages[-1]["content"]
        self.seen["roles"] = [each["role"] for each in messages]

    @HookHandler("maisaka.replyer.after_response")
    async def soften(self, response="", reply_message_id="", **kwargs):
        self.seen["answers"] = reply_message_id
        return {{"modified_kwargs": {{**kwargs, "response": response.replace("damn", "dear")}}}}

    @Tool("shout", core_tool=True)
    async def shout(self, stream_id, **kwargs):
        await self.ctx.send.text("damn!", stream_id)
{TAIL}"""


async def test_words_that_hooks_add_reach_the_model(tmp_path: Path) -> None:
    plant(tmp_path, MOOD, plugin_id="ann.mood")
    async with Bot.open(tmp_path) as bot:
        assert await bot.chat().ask("hello", reply="damn friend") == ["dear friend"]
        for words in ("BY ITEM: be calm", "BY MESSAGE: be short", "EXTRA: be glad"):
            assert words in bot.prompt
        request = bot.model.requests[-1]
        assert [each.role for each in request.messages] == ["system", "user"]
        seen = plugin(bot, "ann.mood").seen
        assert seen["time"].startswith("当前时间：")
        assert seen["asked"] == "hello"
        assert seen["answers"]
        assert seen["roles"] == ["system", "user", "user"]
        await bot.chat().call("shout")
        assert bot.chat().texts[-1] == "damn!"


STOPPER = f"""{HEAD}
    @HookHandler("HOOK")
    async def stop(self, **kwargs):
        return {{"action": "abort"}}

    @Tool("speak", core_tool=True)
    async def speak(self, stream_id, **kwargs):
        return await self.ctx.maisaka.reply.generate(stream_id, "say hi")
{TAIL}"""
REPLYER = ("before_request", "before_model_request", "after_response")


@pytest.mark.parametrize("hook", REPLYER)
async def test_a_hook_stops_a_reply_that_a_plugin_asks_for(tmp_path: Path, hook: str) -> None:
    source = STOPPER.replace("HOOK", f"maisaka.replyer.{hook}")
    plant(tmp_path, source, plugin_id="ann.stopper")
    async with Bot.open(tmp_path) as bot:
        bot.script.foresee(["hi"])
        with pytest.raises(Exception, match=f"maisaka.replyer.{hook} stopped it"):
            await bot.chat().call("speak")
        assert bool(bot.model.requests) is (hook == "after_response")
        bot.script.clear()


def shown(*messages: PromptMessage) -> ShownPrompt:
    return ShownPrompt.of(messages, datetime(2026, 11, 23, 12, 0, tzinfo=UTC), "时间")


PICTURE = PromptMessage("user", (TextPart("look"), ImagePart(b"x")))


def test_a_message_that_is_joined_with_a_new_one_keeps_its_picture() -> None:
    prompt = shown(PromptMessage.of("system", "s"), PICTURE)
    new = {"role": "user", "content": "new"}
    system, user, time = prompt.messages
    made = prompt.changed({"messages": [system, new, user, time], "items": prompt.items})
    assert [each.role for each in made] == ["system", "user"]
    assert ImagePart(b"x") in made[1].parts
    assert made[1].parts[0] == TextPart("new")


def test_a_hook_changes_and_removes_messages() -> None:
    prompt = shown(PromptMessage.of("system", "s"), PICTURE, PromptMessage.of("assistant", "a"))
    system, user, _, time = prompt.messages
    changed = [{**system, "content": "other"}, user, time]
    made = prompt.changed({"messages": changed, "items": prompt.items})
    assert made == (PromptMessage.of("system", "other"), PICTURE)
    assert prompt.changed({"messages": [], "items": prompt.items}) == prompt.originals[:-1]
    assert prompt.changed({"messages": None}) == prompt.originals[:-1]


def test_a_new_system_message_at_the_end_becomes_a_message_of_the_user() -> None:
    prompt = shown(PromptMessage.of("system", "s"), PromptMessage.of("user", "u"))
    more = [*prompt.messages[:-1], {"role": "system", "content": "rule"}]
    made = prompt.changed({"messages": more, "items": prompt.items})
    assert [each.role for each in made] == ["system", "user"]
    assert made[1].parts[-1] == TextPart("rule")


def test_words_that_a_hook_adds_both_as_a_message_and_as_an_item_are_added_once() -> None:
    prompt = shown(PromptMessage.of("user", "u"))
    item = {"item_type": "UserMessageItem", "parts": [{"type": "text", "text": "twice"}]}
    made = prompt.changed(
        {
            "messages": [*prompt.messages, {"role": "user", "content": "twice"}],
            "items": [*prompt.items, item],
        }
    )
    assert [part.text for part in made[0].parts if isinstance(part, TextPart)].count("twice") == 1


def test_extra_words_are_added_to_the_newest_message_of_the_user() -> None:
    messages = (PromptMessage.of("user", "u"), PromptMessage.of("assistant", "a"))
    made = with_words(messages, "more")
    assert [part.text for part in made[0].parts if isinstance(part, TextPart)][-1] == "more"
    assert with_words(messages, "") == messages
    assert with_words(messages[1:], "more")[-1] == PromptMessage.of("user", "more")


def test_a_hook_changes_removes_and_adds_functions_but_adds_only_callable_ones() -> None:
    functions = tuple(
        Function(name=name, description=f"does {name}", parameters={"type": "object"})
        for name in ("a", "b")
    )
    before = function_dicts(functions)
    told = {"type": "function", "function": {"name": "b", "description": "new"}}
    (made,) = changed_functions(functions, before, [told, {"function": {"name": "c"}}, 7])
    assert (made.name, made.description) == ("b", "new")
    (added,) = changed_functions(functions, before, [{"function": {"name": "c"}}], {"c"})
    assert (added.name, added.parameters["type"]) == ("c", "object")
    assert changed_functions((), [], [told], {"b"}) == ()
    assert changed_functions(functions, before, before) == functions
    assert changed_functions(functions, before, None) == functions


@pytest.mark.parametrize("name", [{}, {"name": None}, {"name": ""}, {"name": 7}])
def test_a_call_that_a_hook_returns_without_a_name_is_invalid(name: dict[str, Any]) -> None:
    whole = {"id": "1", "function": {"name": "roll_dice", "arguments": {}}}
    assert calls_of([whole]) == [FunctionCall(call_id="1", name="roll_dice", arguments={})]
    assert calls_of([whole, {"id": "2", "function": {"arguments": {}, **name}}]) is None
