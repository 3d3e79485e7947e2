"""After a step, the model reads a report about this step before it writes again. The tests check
the report."""

from pathlib import Path

import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.llm.model import ModelProfile
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.policy.settings import TurnSettings
from nekro_core.sandbox.box import RunLimits
from tests.agent.bot import answer, fence, running_bot
from tests.agent.conftest import BoxCache
from tests.agent.native import TOOLS_MODE, call, calls, say

LAST_STEP = "[note] Your next reply is the last one of this turn"
LAST_REPAIR = "[note] If your next reply fails too, your turn ends."
NOBODY = "[note] Nobody has seen anything from you yet."


async def set_alarm(_ctx: AgentCtx, at: str) -> str:
    """Set an alarm.

    Args:
        at: The time of the alarm.
    """
    return f"alarm at {at}"


async def test_the_last_step_is_announced(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(
        [fence("print(1)"), fence("print(2)"), fence("send_channel_message('2 of 9')")]
    )
    settings = AgentSettings(turn=TurnSettings(max_steps=3))
    async with running_bot(folder, boxes, model, settings=settings) as bot:
        assert await bot.ask("count to nine") == ["2 of 9"]
        assert LAST_STEP not in bot.prompt(1)
        assert LAST_STEP in bot.prompt(2)
        assert bot.prompt(2).index(LAST_STEP) < bot.prompt(2).rindex("[task]")


async def test_the_last_repair_is_announced(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(
        [fence("import pandas"), fence("import numpy"), "I cannot do it here: no such package."]
    )
    settings = AgentSettings(turn=TurnSettings(max_repairs=2))
    async with running_bot(folder, boxes, model, settings=settings) as bot:
        assert await bot.ask("a data frame") == ["I cannot do it here: no such package."]
        assert LAST_REPAIR not in bot.prompt(1)
        assert LAST_REPAIR in bot.prompt(2)
        assert NOBODY in bot.prompt(1)


async def test_in_tool_mode_the_last_reply_is_announced_too(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([calls(call("no_such")), calls(call("no_such")), say("sorry")])
    settings = AgentSettings(mode="tools", turn=TurnSettings(max_steps=3, max_repairs=2))
    async with running_bot(folder, boxes, model, settings=settings) as bot:
        assert await bot.ask("?") == ["sorry"]
        assert LAST_STEP in bot.prompt(2)
        assert LAST_REPAIR in bot.prompt(2)
        assert NOBODY in bot.prompt(1)


async def test_calls_with_effects_before_an_error_are_listed(folder: Path, boxes: BoxCache) -> None:
    code = "set_alarm('7:30')\nsend_channel_message('The alarm is set')\n1 / 0"
    model = ScriptedModel([fence(code), fence("pass")])
    async with running_bot(folder, boxes, model, tools=[set_alarm]) as bot:
        assert await bot.ask("wake me") == ["The alarm is set"]
        report = bot.prompt()
        assert 'these calls were carried out, and what they did stays:\n+ "set_alarm"' in report
        assert "7:30" in report
        assert '+ "send_channel_message"' not in report
        assert '+ sent: "The alarm is set"' in report
        assert NOBODY not in report


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("print(total)", "[note] total does not exist now. Variables, functions and imports"),
        ("import pandas as pd", "[note] The box has no package pandas."),
        ("import xml_tools.read", "[note] The box has no package xml_tools."),
        ("while True: pass", "[note] The code of one reply may run 1 s. Do less at a time"),
    ],
)
async def test_an_error_comes_with_a_remedy(
    folder: Path, boxes: BoxCache, code: str, told: str
) -> None:
    model = ScriptedModel([fence(code), answer("sorry")])
    async with running_bot(folder, boxes, model, run_limits=RunLimits(seconds=1)) as bot:
        assert await bot.ask("?") == ["sorry"]
        assert told in bot.prompt()
        assert NOBODY in bot.prompt()


async def test_after_a_time_out_a_model_with_a_shell_is_told_to_use_it(
    folder: Path, boxes: BoxCache
) -> None:
    async def shell(_ctx: AgentCtx, command: str) -> str:
        """Run a command.

        Args:
            command: The command.
        """
        return command

    model = ScriptedModel([fence("while True: pass"), answer("sorry")])
    limits = RunLimits(seconds=1)
    async with running_bot(folder, boxes, model, tools=[shell], run_limits=limits) as bot:
        await bot.ask("?")
        assert 'with shell("... > out.txt &"), end your reply' in bot.prompt()


async def test_long_output_becomes_a_file_and_its_beginning_and_end_are_shown(
    folder: Path, boxes: BoxCache
) -> None:
    code = "for i in range(3000):\n    print('line', i)"
    read = "import glob\n(name,) = glob.glob('/home/user/results/*.txt')\n"
    read += "send_channel_message(f'{len(open(name).readlines())} lines')"
    model = ScriptedModel([fence(code), fence(read)])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("count") == ["3000 lines"]
        report = bot.prompt()
        assert (
            "[output] printed by your code, 28890 characters; all of it is in /home/user" in report
        )
        assert "> line 0\n" in report
        assert "> line 2999" in report
        assert "> line 1500\n" not in report
        assert len(report) < 10_000


async def test_after_a_reply_was_cut_by_length_the_report_says_how_to_go_on(
    folder: Path, boxes: BoxCache
) -> None:
    cut = ScriptedAnswer(chunks=["```python\nx = 1\nopen('a.txt', 'w').write('"], reason="length")
    model = ScriptedModel([cut, fence("send_channel_message(str(x))")])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("?") == ["1"]
        assert "[error] Your reply was too long and was cut off here." in bot.prompt()
        assert "[note] Go on from there, and write less in one reply" in bot.prompt()
        assert "nobody has got an answer" in bot.prompt()


@pytest.mark.parametrize("settings", [AgentSettings(), TOOLS_MODE])
async def test_a_model_that_uses_its_token_limit_for_thinking_is_told_and_gets_twice_as_many_tokens(
    folder: Path, boxes: BoxCache, settings: AgentSettings
) -> None:
    thought = ScriptedAnswer(reason="length")
    model = ScriptedModel(
        [thought, "It is 42."],
        profile=ModelProfile(name="thinker", functions=True, context_tokens=128_000),
    )
    async with running_bot(folder, boxes, model, settings=settings) as bot:
        assert await bot.ask("?") == ["It is 42."]
        assert "reached its limit of length" in bot.prompt()
        assert NOBODY in bot.prompt()
        assert [request.max_tokens for request in model.requests] == [8192, 16_384]


async def test_a_short_context_bounds_the_tokens_of_a_reply(folder: Path, boxes: BoxCache) -> None:
    thought = ScriptedAnswer(reason="length")
    profile = ModelProfile(name="short", context_tokens=16_000)
    model = ScriptedModel([thought, "It is 42."], profile=profile)
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("?") == ["It is 42."]
        assert [request.max_tokens for request in model.requests] == [4000, 8000]
