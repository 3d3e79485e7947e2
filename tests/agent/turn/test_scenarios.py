"""Plays conversations that once went wrong, each with the replies of the model that caused the
fault. The number in a test's name is the number of the scenario in `tests.e2e.scenarios` in which
the fault was found."""

import csv
import io
from pathlib import Path

import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import File, Text
from nekro_core.llm.model import ChatRequest
from nekro_core.llm.scripted import ScriptedModel, ScriptedReply
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.policy.settings import TurnSettings
from tests.agent.bot import LIN, answer, fence, running_bot, text_of
from tests.agent.conftest import BoxCache
from tests.agent.native import TOOLS_MODE, call, calls
from tests.delivery.fakes import message

ESSAY = "\n\n".join(
    f"Part {number}. " + "It was a long way to the sea. " * 30 for number in range(10)
)


async def draw_chart(_ctx: AgentCtx, title: str) -> str:
    """Draw a chart and send it.

    Args:
        title: Its title.
    """
    await _ctx.send_text(f"(chart: {title})")
    return "sent"


async def test_6_a_posted_table_is_answered_with_one_reply(folder: Path, boxes: BoxCache) -> None:
    table = io.StringIO()
    csv.writer(table).writerows([["city", "sales"], ["Rome", 3], ["Oslo", 9]])

    def reply(request: ChatRequest) -> ScriptedReply:
        assert "columns: city; sales" in text_of(request)  # the model need not open the file
        return fence(
            "import csv, glob\npaths = glob.glob('/app/uploads/*.csv')\n"
            "(path,) = [path for path in paths if 'Oslo' in open(path).read()]\n"
            "rows = list(csv.DictReader(open(path)))\n"
            "send_channel_message(max(rows, key=lambda row: int(row['sales']))['city'])"
        )

    model = ScriptedModel(reply)
    async with running_bot(folder, boxes, model) as bot:
        media = await bot.media.keep_bytes(
            LIN, table.getvalue().encode(), name="sales.csv", expect="file"
        )
        async with bot.turn():
            segments = (File(media), Text("which city is best?"))
            await bot.accept(message(LIN, segments=segments, message_id="f"))
        assert bot.said() == ["Oslo"]
        assert len(model.requests) == 1


async def test_10_a_long_task_is_announced_and_done(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(
        [
            fence("send_channel_message('I begin')\ntotal = sum(range(1000))\nprint(total)"),
            answer("The sum is 499500."),
        ]
    )
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("tell me when you begin") == ["I begin", "The sum is 499500."]


async def test_13_a_repair_goes_on_with_the_functions_of_the_failed_code(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(
        [
            fence("def digits(n):\n    return '3.14159'[: n + 1]\nsend_file(digits(5))"),
            fence("send_channel_message(digits(4))"),
        ]
    )
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("five digits of pi") == ["3.141"]
        assert "[note] send_file does not exist now." in bot.prompt()


async def test_19_a_model_that_knows_its_last_try_tells_people_what_failed(
    folder: Path, boxes: BoxCache
) -> None:
    def reply(request: ChatRequest) -> ScriptedReply:
        if "If your next reply fails too, your turn ends" in text_of(request):
            return "I cannot do this here: there is no package for it."
        return fence("import pandas")

    model = ScriptedModel(reply)
    async with running_bot(folder, boxes, model) as bot:
        said = await bot.ask("make a data frame")
        assert said == ["I cannot do this here: there is no package for it."]
        assert len(model.requests) == 4


async def test_20_a_model_that_knows_its_last_step_sends_what_it_has(
    folder: Path, boxes: BoxCache
) -> None:
    def reply(request: ChatRequest) -> ScriptedReply:
        if "Your next reply is the last one of this turn" in text_of(request):
            return answer("As far as I got: 8 of 20.")
        return fence(f"step = {len(model.requests)}\nprint('step', step)")

    model = ScriptedModel(reply)
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("twenty steps") == ["As far as I got: 8 of 20."]
        assert len(model.requests) == 10
        assert (await bot.last_turn()).stop == "finished"


async def test_47_a_code_sample_beside_words_runs_and_the_report_says_that_the_words_were_not_sent(
    folder: Path, boxes: BoxCache
) -> None:
    sample = "Here is how to sort a list:\n" + fence("names = ['b', 'a']\nprint(sorted(names))")
    model = ScriptedModel([sample, "Use sorted(names): it gives ['a', 'b']."])
    async with running_bot(folder, boxes, model) as bot:
        said = await bot.ask("show me the code to sort a list")
        assert said == ["Use sorted(names): it gives ['a', 'b']."]
        assert "[note] Your words outside the block were not sent." in bot.prompt()
        assert "[note] Nobody has seen anything from you yet." in bot.prompt()


async def test_49_the_model_sees_the_value_of_a_last_line(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([fence("6*7"), answer("42")])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("6*7?") == ["42"]


@pytest.mark.parametrize("settings", [AgentSettings(), TOOLS_MODE], ids=["code", "tools"])
async def test_51_an_essay_is_sent_whole(
    folder: Path, boxes: BoxCache, settings: AgentSettings
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([ESSAY]), settings=settings) as bot:
        said = await bot.ask("an essay")
        assert "left out" not in "".join(said)
        assert " ".join(said).split() == ESSAY.split()
        assert len(said) <= 7


async def test_66_words_beside_a_chart_are_sent_and_need_no_last_reply(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([calls(call("draw_chart", title="Sales"), prose="Oslo sells most.")])
    async with running_bot(folder, boxes, model, tools=[draw_chart], settings=TOOLS_MODE) as bot:
        assert await bot.ask("chart?") == ["Oslo sells most.", "(chart: Sales)"]
        assert len(model.requests) == 1


async def test_70_a_message_that_a_call_sends_needs_no_last_reply(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([calls(call("send_channel_message", text="144"))])
    async with running_bot(folder, boxes, model, settings=TOOLS_MODE) as bot:
        assert await bot.ask("12*12?") == ["144"]
        assert len(model.requests) == 1


async def test_the_reports_about_the_last_step_use_the_limits_of_the_turn(
    folder: Path, boxes: BoxCache
) -> None:
    settings = AgentSettings(turn=TurnSettings(max_steps=2))
    model = ScriptedModel([fence("print(1)"), "One."])
    async with running_bot(folder, boxes, model, settings=settings) as bot:
        assert await bot.ask("?") == ["One."]
        assert "is the last one of this turn" in bot.prompt()
