"""Tool mode: the model calls functions natively, several at the same time. Each call gets one
result."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import Author, File, Media, plain_text
from nekro_core.llm.model import (
    ChatRequest,
    FunctionCall,
    ImagePart,
    ModelProfile,
    ReplyBroken,
)
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel, ScriptedReply
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.policy.limits import Limits
from nekro_core.policy.settings import TurnSettings
from nekro_core.tools.outcome import ToolFailure
from tests.agent.bot import GROUP, LIN, Bot, NoBoxes, fence, kind_of, running_bot, text_of
from tests.agent.conftest import BoxCache
from tests.agent.native import NOTHING, TOOLS_MODE, call, calls, results_of, say
from tests.agent.turn.test_tool_kinds import TOOLS


async def recorded(bot: Bot) -> list[Any]:
    """All calls of the newest turn, run by run."""
    turn = await bot.last_turn()
    runs = await bot.store.runs.of_turn(turn.turn_id)
    return [each for run in runs for each in await bot.store.runs.calls(run.run_id)]


async def test_text_without_calls_is_the_answer(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(["Four."])
    async with running_bot(folder, boxes, model, settings=TOOLS_MODE) as bot:
        assert await bot.ask("2+2?") == ["Four."]
        assert (await bot.last_turn()).stop == "finished"
        assert not bot.services.boxes.warm  # no call needed a box
    (request,) = model.requests
    assert "You act by calling functions" in text_of(request)
    assert "```" not in text_of(request)
    (function,) = request.functions
    assert function.name == "send_channel_message"
    assert function.parameters["required"] == ["text"]


async def test_a_result_reaches_the_next_step_and_a_send_ends_the_turn(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([calls(call("add", "c1", first=2, second=3)), say("5")])
    async with running_bot(folder, boxes, model, tools=TOOLS, settings=TOOLS_MODE) as bot:
        assert await bot.ask("2+3?") == ["5"]
        turn = await bot.last_turn()
        assert turn.stop == "finished"
        made = await recorded(bot)
        assert [(each.name, each.outcome) for each in made] == [
            ("add", "ok"),
            ("send_channel_message", "ok"),
        ]
        assert made[0].arguments == '{"first": 2, "second": 3}'
        runs = await bot.store.runs.of_turn(turn.turn_id)
        assert [run.code for run in runs] == [
            "add(first=2, second=3)",
            "send_channel_message(text='5')",
        ]
        assert runs[0].output == 'add: {"sum": 5}'
        steps = await bot.store.turns.steps(turn.turn_id)
        assert [step.reply for step in steps] == [run.code for run in runs]
    second = model.requests[1]
    assert results_of(second) == {"c1": '{"sum": 5}'}
    assert [message.role for message in second.messages] == ["system", "user", "assistant", "tool"]


async def test_calls_of_one_reply_run_at_the_same_time(folder: Path, boxes: BoxCache) -> None:
    met = anyio.Event()

    async def wait(_ctx: AgentCtx) -> str:
        """Wait until the other call has come."""
        await met.wait()
        return "met"

    async def come(_ctx: AgentCtx) -> str:
        """Tell the other call that this one has come."""
        met.set()
        return "came"

    model = ScriptedModel([calls(call("wait"), call("come")), say("both"), NOTHING])
    async with running_bot(folder, boxes, model, tools=[wait, come], settings=TOOLS_MODE) as bot:
        assert await bot.ask("meet") == ["both"]
    assert results_of(model.requests[1]) == {"id_wait": "met", "id_come": "came"}


async def test_the_number_of_calls_at_one_time_is_limited(folder: Path, boxes: BoxCache) -> None:
    running, most = 0, 0

    async def work(_ctx: AgentCtx) -> str:
        """Work."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.01)
        running -= 1
        return "done"

    settings = AgentSettings(mode="tools", turn=TurnSettings(parallel_calls=2))
    seven = [call("work", str(number)) for number in range(7)]
    model = ScriptedModel([calls(*seven), "done"])
    async with running_bot(folder, boxes, model, tools=[work], settings=settings) as bot:
        assert await bot.ask("work") == ["done"]
    assert most == 2
    assert results_of(model.requests[1]) == {str(number): "done" for number in range(7)}


async def test_messages_of_one_reply_are_sent_in_the_order_of_its_calls(
    folder: Path, boxes: BoxCache
) -> None:
    async def slow(_ctx: AgentCtx, text: str) -> str:
        """Say something after a while."""
        await anyio.sleep(0.05)
        await _ctx.send_text(text)
        return "sent"

    told = [call("slow", "1", text="one"), call("send_channel_message", "2", text="two")]
    model = ScriptedModel([calls(*told), NOTHING])
    async with running_bot(folder, boxes, model, tools=[slow], settings=TOOLS_MODE) as bot:
        assert await bot.ask("count") == ["one", "two"]


async def test_each_kind_of_tool_gives_its_result(folder: Path, boxes: BoxCache) -> None:
    made = [
        call("set_note", text="tea at four"),
        call("search", query="cats"),
        call("look"),
        call("wrong_type"),
        call("raises"),
        call("hangs"),
        call("add", first="two", second=3),
        call("nowhere"),
        FunctionCall(call_id="garbled", name="add", written='{"first', problem="no JSON"),
    ]
    model = ScriptedModel([calls(*made), "Done."])
    async with running_bot(folder, boxes, model, tools=TOOLS, settings=TOOLS_MODE) as bot:
        assert await bot.ask("all of it") == ["Done."]
        records = await bot.store.messages.newest(LIN, 10)
        system = [plain_text(r.segments) for r in records if r.author is Author.SYSTEM]
        assert system == ["noted: tea at four"]
        assert [each.name for each in await recorded(bot)] == [each.name for each in made]
    request = model.requests[1]
    results = results_of(request)
    assert results["id_set_note"] == "noted: tea at four"
    assert results["id_search"].startswith("three results about cats")
    assert results["id_look"] == "here it is"
    assert "must return str" in results["id_wrong_type"]
    assert "secret" not in results["id_raises"]
    assert "took longer" in results["id_hangs"]
    assert "expected int" in results["id_add"]
    assert "there is no function 'nowhere'" in results["id_nowhere"]
    assert "not carried out: no JSON" in results["garbled"]
    assert len(results) == len(made)
    # A tool message cannot contain a picture, so a user message after it contains the picture.
    last = request.messages[-1]
    assert last.role == "user"
    assert any(isinstance(part, ImagePart) for part in last.parts)


async def test_a_text_answer_belongs_to_the_run_that_records_the_calls_before_it(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([calls(call("add", first=1, second=1)), "Two."])
    async with running_bot(folder, boxes, model, tools=TOOLS, settings=TOOLS_MODE) as bot:
        assert await bot.ask("1+1?") == ["Two."]
        (record,) = [r for r in await bot.store.messages.newest(LIN, 5) if r.author is Author.BOT]
        run = await bot.store.runs.get(record.run_id)
        assert run is not None
        assert (run.code, run.stop) == ("add(first=1, second=1)", "said")


async def test_text_beside_calls_is_sent_before_them(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(
        [
            calls(call("add", first=1, second=1), prose="Let me add that."),
            calls(call("send_channel_message", text="Two."), prose="I have it."),
        ]
    )
    async with running_bot(folder, boxes, model, tools=TOOLS, settings=TOOLS_MODE) as bot:
        assert await bot.ask("1+1?") == ["Let me add that.", "I have it.", "Two."]
        turn = await bot.last_turn()
        assert turn.stop == "finished"
        steps = await bot.store.turns.steps(turn.turn_id)
        assert steps[1].reply == "I have it.\nsend_channel_message(text='Two.')"
    assert 'sent: "Let me add that."' in text_of(model.requests[1], from_message=-1)


async def test_text_that_a_call_also_sends_is_sent_once(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([calls(call("send_channel_message", text="Two. "), prose="Two.")])
    async with running_bot(folder, boxes, model, tools=TOOLS, settings=TOOLS_MODE) as bot:
        assert await bot.ask("1+1?") == ["Two. "]


async def test_a_list_from_a_function_that_sent_a_message_is_shown_to_the_model(
    folder: Path, boxes: BoxCache
) -> None:
    async def search(_ctx: AgentCtx) -> list[str]:
        """Search."""
        await _ctx.send_text("One moment")
        return ["a", "b"]

    model = ScriptedModel([calls(call("search")), "a and b"])
    async with running_bot(folder, boxes, model, tools=[search], settings=TOOLS_MODE) as bot:
        assert await bot.ask("what is there?") == ["One moment", "a and b"]


async def test_a_call_of_a_behavior_with_text_beside_it_needs_no_further_reply(
    folder: Path, boxes: BoxCache
) -> None:
    @kind_of("behavior")
    async def set_note(_ctx: AgentCtx) -> str:
        """Note."""
        return "noted"

    model = ScriptedModel(
        [calls(call("set_note"), prose="I noted it."), calls(call("set_note")), "Noted again."]
    )
    async with running_bot(folder, boxes, model, tools=[set_note], settings=TOOLS_MODE) as bot:
        assert await bot.ask("note it") == ["I noted it."]
        assert len(model.requests) == 1
        # The model wrote no words beside this call, so the call did not count as an answer.
        assert await bot.ask("again") == ["Noted again."]


async def test_words_beside_a_call_that_confirms_them_are_the_answer_unless_the_call_fails(
    folder: Path, boxes: BoxCache
) -> None:
    @kind_of("tool", confirms=True)
    async def set_timer(_ctx: AgentCtx, minutes: int) -> str:
        """Set a timer.

        Args:
            minutes: The minutes from now.
        """
        if minutes <= 0:
            raise ToolFailure("that time is over")
        return "7f3a at 12:30"

    good, bad = call("set_timer", minutes=2), call("set_timer", minutes=0)
    model = ScriptedModel(
        [
            calls(good, prose="I will remind you in 2 minutes."),
            calls(bad, prose="I will remind you at once."),
            "Sorry, that time is over.",
            calls(good),
            "It is set.",
        ]
    )
    async with running_bot(folder, boxes, model, tools=[set_timer], settings=TOOLS_MODE) as bot:
        assert await bot.ask("in two minutes") == ["I will remind you in 2 minutes."]
        assert len(model.requests) == 1
        # A promise that cannot be kept is not sent.
        assert await bot.ask("an hour ago") == ["Sorry, that time is over."]
        assert "[note] Your words were not sent: a call beside them failed." in bot.prompt()
        # The model wrote no words beside this call, so it was asked for a last reply.
        assert await bot.ask("silently") == ["It is set."]


async def test_after_an_empty_reply_at_the_token_limit_the_model_is_told_so(
    folder: Path, boxes: BoxCache
) -> None:
    thought = ScriptedAnswer(reason="length")
    model = ScriptedModel([thought, "Here."])
    async with running_bot(folder, boxes, model, settings=TOOLS_MODE) as bot:
        assert await bot.ask("?") == ["Here."]
    assert "reached its limit of length" in text_of(model.requests[1], from_message=-1)


async def test_a_message_that_arrives_during_a_turn_reaches_its_next_step(
    folder: Path, boxes: BoxCache
) -> None:
    async def slow(_ctx: AgentCtx) -> str:
        """Take a while, in which somebody writes."""
        await bot.say("and cats?")
        return "dogs: 3"

    model = ScriptedModel([calls(call("slow")), "Dogs 3, cats none."])
    async with running_bot(folder, boxes, model, tools=[slow], settings=TOOLS_MODE) as bot:
        assert await bot.ask("how many dogs?") == ["Dogs 3, cats none."]
        assert len(await bot.turns()) == 1
    last = model.requests[1].messages[-1]
    assert last.role == "user"
    assert "> and cats?" in text_of(model.requests[1], from_message=-1)


async def test_the_command_stop_ends_running_handlers_and_each_call_is_recorded_once(
    folder: Path, boxes: BoxCache
) -> None:
    begun, cancelled = anyio.Event(), anyio.Event()

    async def endless(_ctx: AgentCtx) -> str:
        """Never end."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return ""

    settings = AgentSettings(mode="tools", turn=TurnSettings(parallel_calls=1))
    made = [call("add", first=1, second=2), call("endless"), call("search", query="never")]
    model = ScriptedModel([calls(*made)])
    async with running_bot(folder, boxes, model, tools=[*TOOLS, endless], settings=settings) as bot:
        async with bot.turn():
            await bot.say("go")
            await begun.wait()
            await bot.say("/stop")
        assert cancelled.is_set()
        assert (await bot.last_turn()).stop == "stopped"
        assert [(each.name, each.outcome.partition(":")[0]) for each in await recorded(bot)] == [
            ("add", "ok"),
            ("endless", "cut off"),
            ("search", "not carried out"),
        ]
    assert len(model.requests) == 1


async def test_the_time_limit_of_the_turn_ends_handlers_too(folder: Path, boxes: BoxCache) -> None:
    settings = AgentSettings(mode="tools", turn=TurnSettings(max_seconds=2.5))

    async def endless(_ctx: AgentCtx) -> str:
        """Never end."""
        await anyio.sleep_forever()
        return ""

    model = ScriptedModel([calls(call("endless"))])
    async with running_bot(folder, boxes, model, tools=[endless], settings=settings) as bot:
        (said,) = await bot.ask("go")
        assert "2.5" in said
        assert (await bot.last_turn()).stop == "limit_seconds"
        assert [each.name for each in await recorded(bot)] == ["endless"]


async def test_a_turn_in_which_the_model_repeats_itself_ends_at_the_limit_of_steps(
    folder: Path, boxes: BoxCache
) -> None:
    settings = AgentSettings(mode="tools", turn=TurnSettings(max_steps=3))
    model = ScriptedModel(lambda _: calls(call("add", first=1, second=1)))
    async with running_bot(folder, boxes, model, tools=TOOLS, settings=settings) as bot:
        assert len(await bot.ask("go")) == 1
        assert (await bot.last_turn()).stop == "limit_steps"
        assert len(await recorded(bot)) == 3


async def test_a_turn_whose_calls_all_fail_ends_at_the_limit_of_repairs(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(lambda _: calls(call("nowhere")))
    async with running_bot(folder, boxes, model, settings=TOOLS_MODE) as bot:
        await bot.ask("go")
        assert (await bot.last_turn()).stop == "limit_repairs"
    assert len(model.requests) == 1 + TOOLS_MODE.turn.max_repairs


async def test_a_long_result_loses_its_middle_and_the_box_has_all_of_it(
    folder: Path, boxes: BoxCache
) -> None:
    settings = AgentSettings(mode="tools", turn=TurnSettings(result_chars=1000))

    async def long(_ctx: AgentCtx) -> str:
        """Tell much."""
        return "".join(f"line {number}\n" for number in range(5000))

    async def count(_ctx: AgentCtx, path: str) -> int:
        """Count a file's bytes."""
        return len(await _ctx.fs.read(path))

    def script(request: ChatRequest) -> ScriptedReply:
        results = results_of(request)
        if not results:
            return calls(call("long"))
        path = results["id_long"].partition("all of it is in ")[2].partition(" ...]")[0]
        return "Done." if "id_count" in results else calls(call("count", path=path))

    model = ScriptedModel(script)
    async with running_bot(folder, boxes, model, tools=[long, count], settings=settings) as bot:
        assert await bot.ask("much") == ["Done."]
    results = results_of(model.requests[-1])
    assert results["id_long"].startswith("line 0\nline 1\n")
    assert results["id_long"].endswith("line 4999")
    assert len(results["id_long"]) < 1200
    assert results["id_count"] == str(sum(len(f"line {number}\n") for number in range(5000)))


async def test_returned_bytes_become_a_file_in_the_box_for_later_calls(
    folder: Path, boxes: BoxCache
) -> None:
    async def draw(_ctx: AgentCtx) -> bytes:
        """Draw."""
        return b"\x89PNG and so on"

    async def show(_ctx: AgentCtx, path: str) -> str:
        """Show a file's beginning."""
        return (await _ctx.fs.read(path))[:4].hex()

    def script(request: ChatRequest) -> ScriptedReply:
        results = results_of(request)
        if "id_show" in results:
            return "Shown."
        if "id_draw" in results:
            return calls(call("show", path=results["id_draw"].rpartition(" ")[2]))
        return calls(call("draw"))

    model = ScriptedModel(script)
    async with running_bot(folder, boxes, model, tools=[draw, show], settings=TOOLS_MODE) as bot:
        assert await bot.ask("draw") == ["Shown."]
    results = results_of(model.requests[-1])
    assert results["id_draw"].endswith(".png")
    assert results["id_show"] == b"\x89PNG".hex()


async def test_uploads_are_in_the_box_when_a_call_reads_them(folder: Path, boxes: BoxCache) -> None:
    async def size(_ctx: AgentCtx, path: str) -> int:
        """Count a file's bytes."""
        return len(await _ctx.fs.read(path))

    def script(request: ChatRequest) -> ScriptedReply:
        if results := results_of(request):
            return f"{results['id_size']} bytes."
        path = re.findall(r"/app/uploads/\S+", text_of(request))[-1]
        return calls(call("size", path=path))

    sent = folder.parent / "table.csv"
    sent.write_bytes(b"a,b\n1,2\n")
    file = (File(Media(path=str(sent), name="table.csv", mime="text/csv", size=8)),)
    model = ScriptedModel(script)
    async with running_bot(folder, boxes, model, tools=[size], settings=TOOLS_MODE) as bot:
        assert await bot.ask("", segments=file) == ["8 bytes."]


async def test_tools_work_on_a_machine_without_boxes(folder: Path) -> None:
    async def draw(_ctx: AgentCtx) -> bytes:
        """Draw."""
        return b"\x89PNG"

    model = ScriptedModel([calls(call("add", first=1, second=1), call("draw")), "2"])
    async with running_bot(
        folder, NoBoxes(), model, tools=[*TOOLS, draw], settings=TOOLS_MODE
    ) as bot:
        assert await bot.ask("1+1") == ["2"]
    assert results_of(model.requests[1])["id_add"] == '{"sum": 2}'
    assert "could not be kept" in results_of(model.requests[1])["id_draw"]


async def test_the_complete_calls_of_a_reply_that_breaks_off_are_carried_out(
    folder: Path, boxes: BoxCache
) -> None:
    class Breaking(ScriptedModel):
        """A model whose first reply breaks off in its second call."""

        async def _deltas(self, request: ChatRequest) -> AsyncIterator[Any]:
            async for delta in super()._deltas(request):
                yield delta
            if len(self.requests) == 1:
                raise ReplyBroken("gone")

    half = FunctionCall(call_id="2", name="add", written="{", problem="the call is not whole")
    model = Breaking([calls(call("set_note", "1", text="x"), half), "Noted."])
    async with running_bot(folder, boxes, model, tools=TOOLS, settings=TOOLS_MODE) as bot:
        assert await bot.ask("note x") == ["Noted."]
    results = results_of(model.requests[1])
    assert results["1"] == "noted: x"
    assert "not whole" in results["2"]
    assert "broke off" in text_of(model.requests[1], from_message=-1)


async def test_after_an_empty_reply_before_any_answer_the_model_is_asked_once_more(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([NOTHING, "Here."])
    async with running_bot(folder, boxes, model, settings=TOOLS_MODE) as bot:
        assert await bot.ask("hello?") == ["Here."]
    assert "Nobody has seen anything from you" in text_of(model.requests[1], from_message=-1)


async def test_one_chat_may_use_another_mode_than_all_other_chats(
    folder: Path, boxes: BoxCache
) -> None:
    def script(request: ChatRequest) -> ScriptedReply:
        return "By words." if request.functions else fence("send_channel_message('By code.')")

    settings = AgentSettings(modes={str(GROUP): "tools"})
    async with running_bot(folder, boxes, ScriptedModel(script), settings=settings) as bot:
        assert await bot.ask("hello") == ["By code."]
        assert await bot.ask("hello, Nekro", GROUP) == ["By words."]


async def test_a_model_without_function_calls_writes_code(folder: Path, boxes: BoxCache) -> None:
    profile = ModelProfile(name="plain")
    model = ScriptedModel([fence("send_channel_message('By code.')")], profile=profile)
    async with running_bot(folder, boxes, model, settings=TOOLS_MODE) as bot:
        assert await bot.ask("hello") == ["By code."]


async def test_a_turn_interrupted_by_a_crash_is_resumed_and_sends_nothing_twice(
    folder: Path, boxes: BoxCache
) -> None:
    began = anyio.Event()

    async def slow(_ctx: AgentCtx) -> str:
        """Take too long."""
        began.set()
        await anyio.sleep_forever()
        return ""

    first = calls(call("send_channel_message", text="One moment."), call("slow"))
    model = ScriptedModel([first])
    async with running_bot(folder, boxes, model, tools=[slow], settings=TOOLS_MODE) as bot:
        await bot.say("how many?")
        await began.wait()
        while bot.said() != ["One moment."]:
            await anyio.sleep(0.01)
    adapter = bot.adapter
    again = ScriptedModel([say("One moment."), calls(call("add", first=1, second=2)), "Three."])
    async with running_bot(
        folder, boxes, again, tools=TOOLS, settings=TOOLS_MODE, adapter=adapter, recover=True
    ) as bot:
        with anyio.fail_after(30):
            while not (turns := await bot.turns()) or turns[-1].running:
                await anyio.sleep(0.01)
        assert bot.said() == ["One moment.", "Three."]
        assert turns[-1].stop == "finished"
        assert turns[-1].attempts == 2
    assert "People got this from you already" in text_of(again.requests[0])


async def test_old_results_are_shortened_to_fit_the_prompt(folder: Path, boxes: BoxCache) -> None:
    async def long(_ctx: AgentCtx, number: int) -> str:
        """Tell much."""
        return f"{number}: " + "many words " * 2000

    steps = [calls(call("long", str(number), number=number)) for number in range(6)]
    profile = ModelProfile(name="small", functions=True, context_tokens=16_000)
    model = ScriptedModel([*steps, "Done."], profile=profile)
    async with running_bot(folder, boxes, model, tools=[long], settings=TOOLS_MODE) as bot:
        assert await bot.ask("go") == ["Done."]
    results = results_of(model.requests[-1])
    assert len(results) == 6
    assert len(results["5"]) > 20_000
    assert len(results["0"]) < 1000


async def test_text_that_cannot_be_encoded_does_not_end_the_turn(
    folder: Path, boxes: BoxCache
) -> None:
    """The texts contain a lone surrogate and a zero-width character."""

    async def echo(_ctx: AgentCtx, text: str) -> str:
        """Say it again."""
        return text

    model = ScriptedModel(
        [calls(call("echo", "1", text="\ud83d and \u200b"), prose="\ud83d"), "\udc00 Done."]
    )
    async with running_bot(folder, boxes, model, tools=[echo], settings=TOOLS_MODE) as bot:
        assert (await bot.ask("echo"))[-1].endswith("Done.")
        assert (await bot.last_turn()).stop == "finished"
    assert "\\u200b" in results_of(model.requests[1])["1"]


async def test_model_requests_of_a_tool_count_against_the_limits_of_the_turn(
    folder: Path, boxes: BoxCache
) -> None:
    meters: list[object] = []

    async def think(_ctx: AgentCtx) -> str:
        """Ask another model."""
        meters.append(_ctx.meter)
        return "thought"

    model = ScriptedModel([calls(call("think", "c1")), "Done."])
    async with running_bot(folder, boxes, model, tools=[think], settings=TOOLS_MODE) as bot:
        assert await bot.ask("think") == ["Done."]
    (meter,) = meters
    assert isinstance(meter, Limits)


async def test_a_number_from_a_function_that_sent_a_message_is_shown_to_the_model(
    folder: Path, boxes: BoxCache
) -> None:
    async def roll(_ctx: AgentCtx) -> int:
        """Roll."""
        await _ctx.send_text("3 + 2")
        return 5

    model = ScriptedModel([calls(call("roll")), "You won!"])
    async with running_bot(folder, boxes, model, tools=[roll], settings=TOOLS_MODE) as bot:
        assert await bot.ask("roll, and tell me whether I won") == ["3 + 2", "You won!"]
