"""A turn takes more steps while its code has output for the model. All steps share one
interpreter."""

from pathlib import Path

import pytest

from nekro_core.agent.turn.already_sent import was_answered
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.sandbox.box import RunLimits
from tests.agent.bot import fence, kind_of, running_bot
from tests.agent.conftest import BoxCache


async def test_output_after_a_send_opens_another_step(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(
        [
            fence("send_channel_message('One moment')\nprint('found', 6 * 7)"),
            fence("send_channel_message('It is 42')"),
        ]
    )
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("what is it?") == ["One moment", "It is 42"]
        assert "[output] printed by your code:\n> found 42" in bot.prompt()
        assert '+ sent: "One moment"' in bot.prompt()
        assert (await bot.last_turn()).stop == "finished"


async def test_output_before_the_last_send_opens_no_further_step(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([fence("print('working')\nsend_channel_message('done')")])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("do it") == ["done"]
        assert len(model.requests) == 1
        (run,) = await bot.store.runs.of_turn((await bot.last_turn()).turn_id)
        assert (run.stop, run.output) == ("finished", "working\n")


async def test_the_value_of_a_last_expression_is_shown(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([fence("x = 20\nx + 1"), fence("send_channel_message(str(x * 2))")])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("?") == ["40"]
        assert "[output] printed by your code:\n> 21" in bot.prompt()


async def test_a_send_as_the_last_expression_ends_the_turn(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([fence("send_channel_message('a')")])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("?") == ["a"]
        assert len(model.requests) == 1


async def test_the_same_output_twice_in_a_row_ends_the_turn(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(lambda _: fence("send_channel_message('a')\nprint('b')"))
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("?") == ["a", "a"]
        assert len(model.requests) == 2
        assert (await bot.last_turn()).stop == "finished"


async def test_a_result_that_only_confirms_leads_to_no_further_step_after_a_send(
    folder: Path, boxes: BoxCache
) -> None:
    @kind_of("tool", confirms=True)
    async def set_timer(_ctx: AgentCtx) -> str:
        """Set a timer."""
        return "7f3a at 12:30"

    model = ScriptedModel(
        [
            fence("send_channel_message('I will remind you.')\nset_timer()"),
            fence("set_timer()"),
            "It is set.",
        ]
    )
    async with running_bot(folder, boxes, model, tools=[set_timer]) as bot:
        assert await bot.ask("in two minutes") == ["I will remind you."]
        assert len(model.requests) == 1
        assert await bot.ask("silently") == ["It is set."]
        # no message was sent, so the model reads the confirmation
        assert "> 7f3a at 12:30" in bot.prompt()


async def test_the_chat_is_told_when_repeated_output_ends_the_turn_unanswered(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(lambda _: fence("print('b')"))
    async with running_bot(folder, boxes, model) as bot:
        (said,) = await bot.ask("?")
        assert said.startswith("I could not get this to work")
        assert len(model.requests) == 2
        assert (await bot.last_turn()).stop == "same_output"


async def test_variables_last_as_long_as_the_turn(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(
        [
            fence("import math\nx = 6\ndef double(n):\n    return n * 2\nprint(x)"),
            fence("y = double(x)\n1 / 0"),
            fence("send_channel_message(f'{y} {math.floor(2.5)}')"),
            fence("print('x' in globals())"),
            fence("send_channel_message('over')"),
        ]
    )
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("?") == ["12 2"]
        assert await bot.ask("and now?") == ["over"]
        assert "> False" in bot.prompt()  # the next turn gets a new interpreter


async def test_variables_survive_a_call_that_ends_the_run(folder: Path, boxes: BoxCache) -> None:
    @kind_of("agent")
    async def look_up(_ctx: AgentCtx) -> str:
        """Look."""
        return "found"

    model = ScriptedModel(
        [fence("x = 41\nlook_up()\nx = 0"), fence("send_channel_message(str(x + 1))")]
    )
    async with running_bot(folder, boxes, model, tools=[look_up]) as bot:
        assert await bot.ask("?") == ["42"]


async def test_the_model_is_told_when_its_variables_are_lost(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(
        [fence("x = 1\nimport os\nos._exit(3)"), fence("send_channel_message('sorry')")]
    )
    async with running_bot(folder, boxes, model, run_limits=RunLimits(seconds=5)) as bot:
        assert await bot.ask("?") == ["sorry"]
        assert "[note] Your variables and imports are gone with it; files are kept." in bot.prompt()


async def test_a_turn_whose_last_run_has_output_to_show_does_not_count_as_answered(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([fence("send_channel_message('One moment')\nprint('found')"), "It is 42"])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("?") == ["One moment", "It is 42"]
        runs = await bot.store.runs.of_turn((await bot.last_turn()).turn_id)
        assert [run.stop for run in runs] == ["printed", "said"]
        sent = await bot.store.deliveries.of_run(runs[0].run_id)
        # If the process is killed after the first run, the next process resumes the turn.
        assert not was_answered(runs[:1], sent)
        assert was_answered(runs, sent)


async def test_different_code_with_the_same_output_gets_one_note_and_then_ends_the_turn(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(
        [
            fence("send_channel_message('Watching')\nprint('running')"),
            fence("x = 1\nprint('running')"),
            fence("x = 2\nprint('done')"),
            fence("send_channel_message('It is done')"),
        ]
    )
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("tell me when it is done") == ["Watching", "It is done"]
        assert "[note] That is what you were shown before." in bot.prompt(2)
    model = ScriptedModel(lambda _: fence(f"x = {len(model.requests)}\nprint('running')"))
    async with running_bot(folder, boxes, model) as bot:
        await bot.ask("and now?")
        assert len(model.requests) == 3
        assert (await bot.last_turn()).stop == "same_output"


async def test_code_that_neither_prints_nor_sends_gets_one_note(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([fence("x = 6 * 7"), fence("send_channel_message(str(x))")])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("?") == ["42"]
        assert "[note] Nothing was sent and nothing printed" in bot.prompt()
    model = ScriptedModel(lambda _: fence("x = 1"))
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("?") == []
        assert len(model.requests) == 2
        assert (await bot.last_turn()).stop == "finished"


@pytest.mark.parametrize("reply", [fence("pass"), fence("# nothing to say")])
async def test_a_reply_with_only_pass_sends_nothing(
    folder: Path, boxes: BoxCache, reply: str
) -> None:
    model = ScriptedModel([reply])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("thanks!") == []
        assert (await bot.last_turn()).stop == "finished"


async def test_a_call_of_a_behavior_counts_as_an_answer(folder: Path, boxes: BoxCache) -> None:
    @kind_of("behavior")
    async def set_note(_ctx: AgentCtx) -> str:
        """Note."""
        return "noted"

    model = ScriptedModel([fence("set_note()")])
    async with running_bot(folder, boxes, model, tools=[set_note]) as bot:
        assert await bot.ask("note it") == []
        assert len(model.requests) == 1


async def test_the_model_is_told_that_text_beside_code_was_not_sent(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(["The answer is\n" + fence("print(42)"), "The answer is 42."])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("?") == ["The answer is 42."]
        assert "[note] Your words outside the block were not sent." in bot.prompt()
