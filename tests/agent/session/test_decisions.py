"""For each message of a person, the store records why the bot answered it or why not."""

import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.chat import ChatKey, ChatMessage, Notice, Record, Sender
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.policy.settings import TriggerSettings
from nekro_core.store import DecisionReason, MessageDecision, Store
from tests.agent.bot import GROUP, LIN, LONG, Bot, answer, running_bot, until
from tests.agent.conftest import BoxCache


async def decision(store: Store, record: Record) -> MessageDecision:
    """Wait until the decision about a message is stored, and return it."""
    with anyio.fail_after(30):
        while (found := await store.decisions.of(record.seq)) is None:
            await anyio.sleep(0.01)
    return found


async def decided(bot: Bot, text: str, chat: ChatKey = GROUP, **more: Any) -> tuple[str, str]:
    """Say something, and return the reason and the detail of the bot's decision."""
    said = await decision(bot.store, await bot.say(text, chat, **more))
    return said.reason.value, said.detail


async def test_the_decision_about_an_answered_message_has_the_reason_and_the_turn(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([answer("yes")] * 4)) as bot:
        for text, chat, more, reason, detail in (
            ("hello", LIN, {}, DecisionReason.PRIVATE, ""),
            ("you there?", GROUP, {"to_bot": True}, DecisionReason.ADDRESSED, ""),
            ("so, Nekro, is it true?", GROUP, {}, DecisionReason.NAMED, "Nekro"),
        ):
            async with bot.turn(chat):
                record = await bot.say(text, chat, **more)
            turn = (await bot.last_turn(chat)).turn_id
            assert await decision(bot.store, record) == MessageDecision(
                reason=reason, detail=detail, turn_id=turn
            )


async def test_the_decision_about_a_further_message_has_the_turn_that_read_it(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([answer("yes")]), trigger=LONG) as bot:
        async with bot.turn(GROUP):
            asked = await bot.say("Nekro, look", GROUP)
            more = await bot.say("at the sky", GROUP)
            other = await bot.say("and at me", GROUP, user="mei")
            bot.typed(GROUP)
        turn = (await bot.last_turn(GROUP)).turn_id
        assert (await decision(bot.store, asked)).turn_id == turn
        assert await decision(bot.store, more) == MessageDecision(
            reason=DecisionReason.FOLLOWED, turn_id=turn
        )
        assert await decision(bot.store, other) == MessageDecision(
            reason=DecisionReason.NOT_ADDRESSED
        )


async def test_the_decision_about_an_unanswered_message_has_the_reason(
    folder: Path, boxes: BoxCache
) -> None:
    trigger = TriggerSettings(debounce_s=0, private=False, history_age_s=60)
    async with running_bot(folder, boxes, ScriptedModel([]), trigger=trigger) as bot:
        assert await decided(bot, "nice weather") == ("not_addressed", "")
        assert await decided(bot, "hello", LIN) == ("private_off", "")
        assert await decided(bot, "Nekro?", from_history=True, time=time.time() - 90) == (
            "too_old",
            "",
        )
        assert await decided(bot, "/help") == ("command", "nekro:help")
        joined = await bot.accept(
            ChatMessage(
                chat_key=GROUP,
                message_id="",
                sender=Sender("mei"),
                segments=(Notice("join"),),
                time=time.time(),
                account="bot",
            )
        )
        assert joined is not None
        assert (await decision(bot.store, joined)).detail == "join"


async def test_the_decision_says_that_the_operators_file_forbids_an_answer(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([])) as bot:
        policies = bot.services.policies.conduct
        await policies.put(("chats", str(GROUP)), "ignore", ["mei"])
        assert await decided(bot, "Nekro?", user="mei") == ("ignored_person", "")
        await policies.put(("chats", str(GROUP)), "state", "observe")
        assert await decided(bot, "Nekro?", user="lin") == ("chat_observed", "")
        assert await decided(bot, "Nekro?", answered_elsewhere=True) == ("answered_elsewhere", "")


@pytest.mark.parametrize(
    ("signal", "reason", "recalled"),
    [
        (MsgSignal.BLOCK_TRIGGER, "blocked_by_plugin", False),
        (MsgSignal.BLOCK_ALL, "hidden_by_plugin", True),
    ],
)
async def test_the_decision_about_a_message_that_a_plugin_blocked_names_the_plugin(
    folder: Path, boxes: BoxCache, signal: MsgSignal, reason: str, *, recalled: bool
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([])) as bot:
        bot.plugins.signal = lambda _said: signal
        assert await decided(bot, "Nekro?", message_id="m1") == (reason, "tests.hook")

        async def is_recalled() -> bool:
            stored = await bot.store.messages.by_message_id(GROUP, "m1")
            return stored is not None and stored.recalled

        with anyio.fail_after(30):
            while await is_recalled() is not recalled:
                await anyio.sleep(0.01)
        # The author recalls the message afterwards. The stored reason is still that the plugin
        # blocked it.
        await bot.host.recall(GROUP, "m1")
        stored = await bot.store.messages.by_message_id(GROUP, "m1")
        assert stored is not None
        assert (await decision(bot.store, stored)).reason == reason


async def test_the_decision_about_a_recalled_message_says_that_it_was_recalled(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([]), trigger=LONG) as bot:
        asked = await bot.say("Nekro?", GROUP, message_id="m1")
        await bot.host.recall(GROUP, "m1")
        assert (await decision(bot.store, asked)).reason is DecisionReason.RECALLED


async def test_the_decision_says_which_quota_is_used_up(folder: Path, boxes: BoxCache) -> None:
    (folder / "conduct.toml").parent.mkdir(exist_ok=True)
    (folder / "conduct.toml").write_text("[bot]\nperson_quota = { turns = 1 }\n")
    async with running_bot(folder, boxes, ScriptedModel([answer("yes")])) as bot:
        await bot.ask("hello")
        async with bot.turn():
            second = await bot.say("and again")
        await until(lambda: len(bot.said()) > 1)
        found = await decision(bot.store, second)
        with anyio.fail_after(30):
            while (found := await decision(bot.store, second)).reason is DecisionReason.PRIVATE:
                await anyio.sleep(0.01)
        assert (found.reason, found.detail) == (DecisionReason.QUOTA, "user")
        assert found.turn_id == (await bot.last_turn()).turn_id


async def test_the_decision_about_a_question_that_stop_dropped_says_so(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([]), trigger=LONG) as bot:
        asked = await bot.say("Nekro, tell a story", GROUP)
        stop = await bot.say("/stop", GROUP)
        assert (await decision(bot.store, asked)).reason is DecisionReason.STOPPED
        assert await decision(bot.store, stop) == MessageDecision(
            reason=DecisionReason.COMMAND, detail="nekro:stop"
        )


async def test_a_message_that_was_not_handled_before_a_long_pause_is_too_old(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([answer("yes")])) as bot:
        await bot.ask("hello", time=time.time() - 9_000)
        # The message is stored, but the process ended before its sessions got the message.
        stamped = bot.inbox.stamp(
            ChatMessage(
                chat_key=LIN,
                message_id="late",
                sender=Sender("lin"),
                segments=(),
                time=time.time() - 8_000,
                account="bot",
            )
        )
        await bot.store.messages.add(stamped.record, unique_id="late")
    async with running_bot(folder, boxes, ScriptedModel([]), recover=True) as bot:
        assert (await decision(bot.store, stamped.record)).reason is DecisionReason.TOO_OLD
