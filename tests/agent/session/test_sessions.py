"""Sessions handle many messages and many chats, and the commands that stop a turn."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import ChatKey, Notice, Text
from nekro_core.delivery.activity import Working
from nekro_core.llm.model import ChatRequest
from nekro_core.llm.scripted import ScriptedModel, ScriptedReply
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.policy.settings import TriggerSettings
from tests.agent.bot import GROUP, LIN, LONG, Bot, answer, fence, running_bot, text_of, until
from tests.agent.conftest import BoxCache


async def test_messages_that_a_person_types_in_pieces_get_one_turn(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("both")])
    async with running_bot(folder, boxes, model, trigger=LONG) as bot:
        async with bot.turn():
            await bot.say("are you")
            await bot.say("there?")
            bot.typed()
        assert bot.said() == ["both"]
        assert bot.prompt().count(" NEW\n") == 2


async def test_a_request_is_prepared_while_the_person_may_still_type(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("yes")])
    trigger = TriggerSettings(debounce_s=1)
    async with running_bot(folder, boxes, model, trigger=trigger) as bot:
        made = anyio.Event()

        async def note_that() -> None:
            assert not model.requests
            assert not await bot.turns()
            made.set()

        bot.plugins.asked = [note_that, anyio.sleep_forever]
        async with bot.turn():
            await bot.say("did it rain?")
        assert made.is_set()
        assert bot.said() == ["yes"]


async def test_the_method_prepare_of_the_sessions_waits_until_the_model_is_prepared(
    folder: Path, boxes: BoxCache
) -> None:
    class Slow(ScriptedModel):
        prepared = False

        async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
            await anyio.sleep(0.05)
            self.prepared = True

    model = Slow([])
    async with running_bot(folder, boxes, model) as bot:
        await bot.sessions.prepare()
        assert model.prepared


async def test_a_model_that_cannot_be_prepared_does_not_end_the_bot(
    folder: Path, boxes: BoxCache
) -> None:
    class Unready(ScriptedModel):
        prepared = False

        async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
            self.prepared = True
            raise ImportError("its library is broken")

    model = Unready([answer("yes")])
    async with running_bot(folder, boxes, model) as bot:
        await bot.sessions.prepare()
        await until(lambda: model.prepared)
        assert await bot.ask("did it rain?") == ["yes"]


async def test_changes_after_a_request_was_prepared_are_in_the_request_that_is_sent(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("yes")])
    trigger = TriggerSettings(debounce_s=1)
    async with running_bot(folder, boxes, model, trigger=trigger) as bot:
        old = await bot.say("forget me", GROUP)

        async def meanwhile() -> None:
            await bot.inbox.note(GROUP, "it rained")
            await bot.inbox.recall(GROUP, old.message_id)

        bot.plugins.asked = [meanwhile]
        async with bot.turn(GROUP):
            await bot.say("Nekro, did it rain?", GROUP)
        assert "it rained" in bot.prompt()
        assert "forget me" not in bot.prompt()
        assert len(model.requests) == 1


async def test_messages_between_other_people_are_not_answered_but_are_in_the_prompt(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("tea")])
    async with running_bot(folder, boxes, model) as bot:
        await bot.say("I like tea", GROUP, user="mei")
        await bot.say("me too", GROUP, user="ken")
        await bot.say("", GROUP, segments=(Notice("join", "kim"),), user="kim", message_id="")
        async with bot.turn(GROUP):
            await bot.say("Nekro, what do I like?", GROUP, user="mei")
        assert bot.said(GROUP) == ["tea"]
        assert "> I like tea" in bot.prompt()
        assert "+ join by kim" in bot.prompt()
        assert bot.prompt().count(" NEW only named\n") == 1


async def test_a_poke_at_the_bot_is_answered_and_the_bots_own_messages_are_not(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("ouch")])
    async with running_bot(folder, boxes, model) as bot:
        poke = (Notice("poke", actor_id="lin", target_id="bot"),)
        async with bot.turn(GROUP):
            await bot.say("", GROUP, segments=poke, to_bot=True, message_id="")
        await bot.say("Nekro Nekro", GROUP, user="bot")
        await anyio.sleep(0.1)
        assert bot.said(GROUP) == ["ouch"]
        assert len(model.requests) == 1


async def test_all_messages_during_a_turn_reach_its_next_step(
    folder: Path, boxes: BoxCache
) -> None:
    async def first() -> AsyncIterator[str]:
        yield "```python\nx = 1\n"
        await bot.say("make it two")
        await bot.say("no, three")
        yield "print('looking')\n```"

    def script(request: ChatRequest) -> ScriptedReply:
        return first() if len(model.requests) == 1 else answer("three")

    model = ScriptedModel(script)
    async with running_bot(folder, boxes, model) as running:
        bot = running
        assert await bot.ask("one please") == ["three"]
        report = text_of(model.requests[1], from_message=-1)
        assert report.index("> make it two") < report.index("> no, three")
        assert "> looking" in report
        # The second step has shown these messages, so no further turn answers them.
        await anyio.sleep(0.05)
        assert len(model.requests) == 2


async def test_a_message_that_no_step_has_shown_gets_the_next_turn(
    folder: Path, boxes: BoxCache
) -> None:
    async def first() -> AsyncIterator[str]:
        yield "```python\nsend_channel_message('one')\n"
        await bot.say("and another")
        yield "```"

    model = ScriptedModel([first(), answer("two")])
    async with running_bot(folder, boxes, model) as running:
        bot = running
        await bot.say("go")
        await until(lambda: len(bot.said()) == 2)
        assert bot.said() == ["one", "two"]
        await bot.settled()
        assert len(await bot.turns()) == 2


async def test_many_chats_are_answered_in_order_and_only_the_set_number_of_boxes_stays_open(
    folder: Path, boxes: BoxCache
) -> None:
    def script(request: ChatRequest) -> str:
        asked = text_of(request, from_message=1).rsplit("> ask ", 1)[1].split("\n")[0]
        return answer(f"answer {asked}")

    chats = [ChatKey.parse(f"fake-private_{number}") for number in range(6)]
    settings = AgentSettings(concurrent_turns=3, warm_boxes=2)
    async with running_bot(folder, boxes, ScriptedModel(script), settings=settings) as bot:
        for number in range(2):
            for chat in chats:
                async with bot.turn(chat):
                    await bot.say(f"ask {chat.native_id}.{number}", chat)
        for chat in chats:
            assert bot.said(chat) == [f"answer {chat.native_id}.{n}" for n in range(2)]
        assert bot.sessions._services.boxes.warm <= 2


async def test_a_slow_chat_does_not_delay_other_chats(folder: Path, boxes: BoxCache) -> None:
    release = anyio.Event()

    async def slow() -> AsyncIterator[str]:
        await release.wait()
        yield answer("slow")

    def script(request: ChatRequest) -> ScriptedReply:
        return slow() if "private_lin" in text_of(request) else answer("quick")

    async with running_bot(folder, boxes, ScriptedModel(script)) as bot:
        await bot.say("go")
        assert await bot.ask("Nekro?", GROUP) == ["quick"]
        assert bot.sessions.working(LIN)
        assert not bot.sessions.working(GROUP)
        async with bot.turn():
            release.set()
        assert bot.said() == ["slow"]


# --- stopping -------------------------------------------------------------------------------------


async def _stuck(bot: Bot) -> None:
    """Start a turn that does not end by itself, and wait for its first message."""
    await bot.say("go")
    await until(lambda: bool(bot.said()))


async def test_the_command_stop_ends_the_turn_at_once(folder: Path, boxes: BoxCache) -> None:
    async def reply() -> AsyncIterator[str]:
        yield "```python\nsend_channel_message('one')\nimport time\ntime.sleep(30)\n"
        await anyio.sleep_forever()
        yield "send_channel_message('two')"

    model = ScriptedModel([reply(), answer("new")])
    async with running_bot(folder, boxes, model) as bot:
        await _stuck(bot)
        async with bot.turn():
            await bot.say("/stop")
        await until(lambda: len(bot.said()) == 2)
        assert bot.said() == ["one", "Stopped."]
        turn = await bot.last_turn()
        assert turn.stop == "stopped"
        assert model.open_streams == 0
        (run,) = await bot.store.runs.of_turn(turn.turn_id)
        assert run.stop == "cancelled"
        (step,) = await bot.store.turns.steps(turn.turn_id)
        assert "time.sleep" in step.reply
        # The box is usable again, and the chat's next message is answered.
        assert await bot.ask("again") == ["new"]


async def test_an_operator_stops_a_turn_from_the_page(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([answer("one") + "\n" + fence("while True: pass")])
    async with running_bot(folder, boxes, model) as bot:
        assert not await bot.sessions.stop(LIN)
        await _stuck(bot)
        async with bot.turn():
            assert await bot.sessions.stop(LIN)
        await until(lambda: len(bot.said()) == 2)
        assert bot.said() == ["one", "Stopped."]


async def test_the_command_stop_drops_the_questions_before_it(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("one") + "\n" + fence("while True: pass"), answer("two")])
    async with running_bot(folder, boxes, model) as bot:
        await _stuck(bot)
        await bot.say("and then this")
        async with bot.turn():
            await bot.say("/STOP")
        await until(lambda: len(bot.said()) == 2)
        await anyio.sleep(0.1)
        assert len(model.requests) == 1
        assert await bot.store.turns.unanswered(since=0) == []


async def test_the_command_stop_does_nothing_in_a_chat_without_a_running_turn(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([])) as bot:
        await bot.say("/stop")
        await until(lambda: bool(bot.said()))
        assert bot.said() == ["Nothing is running here."]
        # In a group, the command may be meant for another bot. So this bot stays silent.
        await bot.say("/stop", GROUP)
        await anyio.sleep(0.05)
        assert bot.said(GROUP) == []


async def test_the_command_stop_drops_a_question_whose_author_still_types(
    folder: Path, boxes: BoxCache
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([]), trigger=LONG) as bot:
        await bot.say("do it")
        await anyio.sleep(0.02)
        await bot.say("/stop")
        await until(lambda: bool(bot.said()))
        assert bot.said() == ["Stopped."]


async def test_the_command_stop_drops_a_question_that_a_hook_still_checks(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("too late")])
    async with running_bot(folder, boxes, model) as bot:
        looked = bot.plugins.looked = anyio.Event()
        await bot.say("do it")
        await bot.say("/stop")
        await until(lambda: bool(bot.sessions._sessions[LIN]._stop_requests))
        looked.set()
        await until(lambda: bool(bot.said()))
        assert bot.said() == ["Stopped."]
        assert model.requests == []


# --- recalled, hidden, forced ---------------------------------------------------------------------


async def test_a_recalled_message_is_removed_from_the_prompt(folder: Path, boxes: BoxCache) -> None:
    async def first() -> AsyncIterator[str]:
        await bot.inbox.recall(LIN, "secret")
        yield fence("print('hm')")

    model = ScriptedModel([answer("ok"), first(), answer("done")])
    async with running_bot(folder, boxes, model) as running:
        bot = running
        await bot.ask("my password is 1234", message_id="secret")
        assert "1234" in bot.prompt()
        await bot.ask("forget it")
        assert "1234" in bot.prompt(1)
        assert "1234" not in bot.prompt(2)


async def test_plugins_may_hide_a_message_leave_it_unanswered_or_force_an_answer(
    folder: Path, boxes: BoxCache
) -> None:
    signals = {
        "hidden": MsgSignal.BLOCK_ALL,
        "quiet": MsgSignal.BLOCK_TRIGGER,
        "now": MsgSignal.FORCE_TRIGGER,
    }
    async with running_bot(folder, boxes, ScriptedModel([answer("forced")])) as bot:
        bot.plugins.signal = lambda said: signals[said.text]
        await bot.say("hidden")
        await bot.say("quiet")
        await anyio.sleep(0.05)
        assert bot.said() == []
        assert await bot.ask("now", GROUP) == ["forced"]
        bot.model._answer = lambda _: answer("again")
        assert await bot.ask("now") == ["again"]
        assert "> quiet" in bot.prompt()
        assert "> hidden" not in bot.prompt()


@pytest.mark.parametrize("signal", [MsgSignal.CONTINUE, MsgSignal.BLOCK_TRIGGER])
async def test_after_a_restart_hooks_are_not_called_again_for_a_message_that_they_got(
    folder: Path, boxes: BoxCache, signal: MsgSignal
) -> None:
    heard: list[str] = []

    def count(said: Any) -> MsgSignal:
        heard.append(said.text)
        return signal

    async with running_bot(folder, boxes, ScriptedModel([])) as bot:
        bot.plugins.signal = count
        await bot.say("18.50 for tea", GROUP)
        await until(lambda: heard == ["18.50 for tea"])
        with anyio.fail_after(30):
            while await bot.store.turns.unanswered(since=0):
                await anyio.sleep(0.005)
    async with running_bot(folder, boxes, ScriptedModel([answer("yes")])) as bot:
        bot.plugins.signal = count
        await bot.sessions.recover()
        await bot.say("Nekro?", GROUP)
        await until(lambda: "Nekro?" in heard)
    assert heard == ["18.50 for tea", "Nekro?"]


async def test_a_blocked_message_is_not_given_to_hooks_again_while_another_waits(
    folder: Path, boxes: BoxCache
) -> None:
    heard: list[str] = []

    def block_commands(said: Any) -> MsgSignal:
        heard.append(said.text)
        blocks = said.text.startswith("book")
        return MsgSignal.BLOCK_TRIGGER if blocks else MsgSignal.CONTINUE

    async with running_bot(folder, boxes, ScriptedModel([]), trigger=LONG) as bot:
        bot.plugins.signal = block_commands
        await bot.say("Nekro, tell a story", GROUP)
        await bot.say("book 18.50 for tea", GROUP, user="mei")
        await until(lambda: "book 18.50 for tea" in heard)
        await anyio.sleep(0.05)
    async with running_bot(folder, boxes, ScriptedModel([answer("once")]), recover=True) as bot:
        bot.plugins.signal = block_commands
        await until(lambda: bot.said(GROUP) == ["once"])
        await bot.settled()
    assert heard.count("book 18.50 for tea") == 1


async def test_a_system_line_may_wake_the_agent(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([answer("tea time")])
    async with running_bot(folder, boxes, model) as bot:
        async with bot.turn(GROUP):
            await bot.journal.note(GROUP, "it is four o'clock", trigger=True)
        assert bot.said(GROUP) == ["tea time"]
        assert "> it is four o'clock" in bot.prompt()
        await bot.journal.note(GROUP, "and five", trigger=False)
        await anyio.sleep(0.05)
        assert len(model.requests) == 1


# --- many at once ---------------------------------------------------------------------------------


async def test_a_turn_that_waits_too_long_for_a_free_slot_is_closed_with_a_reason(
    folder: Path, boxes: BoxCache
) -> None:
    """If the model is too slow for all chats, turns that wait too long are closed, so that their
    number does not grow without end."""
    other, go_on = ChatKey.parse("fake-private_mei"), anyio.Event()

    async def slow() -> AsyncIterator[str]:
        await go_on.wait()
        yield "there you are"

    settings = AgentSettings(concurrent_turns=1, longest_queue_s=0.2)
    model = ScriptedModel([slow(), "welcome"])
    async with running_bot(folder, boxes, model, settings=settings) as bot:
        await bot.say("first")
        await until(lambda: len(model.requests) == 1)
        assert await bot.ask("second", other, user="mei") == [
            "Too many people want something from me right now. Please ask me again in a while."
        ]
        assert (await bot.last_turn(other)).stop == "too_busy"
        async with bot.turn():
            go_on.set()
        assert bot.said() == ["there you are"]
        assert await bot.ask("now?", other, user="mei") == ["welcome"]
    async with running_bot(folder, boxes, ScriptedModel([]), recover=True) as bot:
        await anyio.sleep(0.1)
        assert bot.said(other) == [], "the closed turn is not resumed after a restart"


# --- idle sessions, activity, language ------------------------------------------------------------


async def test_the_session_of_a_silent_chat_ends(folder: Path, boxes: BoxCache) -> None:
    settings = AgentSettings(session_idle_s=0.05)
    async with running_bot(folder, boxes, ScriptedModel([answer("hi")]), settings=settings) as bot:
        assert await bot.ask("hello") == ["hi"]
        await until(lambda: bot.sessions.live_count == 0)
        bot.model._answer = lambda _: answer("hi again")
        assert await bot.ask("hello") == ["hi again"]


async def test_watchers_are_told_when_the_bot_begins_and_ends_its_work(
    folder: Path, boxes: BoxCache
) -> None:
    async with (
        running_bot(folder, boxes, ScriptedModel([answer("hi")])) as bot,
        bot.activity.watch() as activities,
    ):
        await bot.ask("hello")
        seen = []
        async for activity in activities:
            if isinstance(activity, Working):
                seen.append(activity.busy)
                if not activity.busy:
                    break
        assert seen == [True, False]


async def test_notices_are_in_the_language_of_the_chat(folder: Path, boxes: BoxCache) -> None:
    async with running_bot(folder, boxes, ScriptedModel(["", "", "", ""])) as bot:
        assert (await bot.ask("こんにちは"))[0].startswith("答え")
        segments = (Text("你好"),)
        mei = ChatKey.parse("fake-private_mei")
        assert (await bot.ask("", mei, segments=segments))[0].startswith("这个")
