"""Tests of whole turns, from a message to its answer, with a real box and a scripted model."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import Author, DeliveryState, File, Receipt
from nekro_core.llm.model import (
    KeyRejected,
    ModelError,
    ModelProfile,
    ModelRefused,
    ModelUnreachable,
    QuotaExceeded,
    RequestRejected,
)
from nekro_core.llm.scripted import ScriptedModel, ScriptedReply
from nekro_core.sandbox.box import Box, RunLimits
from tests.agent.bot import GROUP, LIN, NoBoxes, fence, running_bot
from tests.agent.conftest import BoxCache
from tests.agent.native import TOOLS_MODE, call, calls
from tests.delivery.fakes import FakeAdapter


async def test_a_message_is_answered_by_code_that_sends(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([fence("send_channel_message('hello ' + str(6 * 7))")])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("hi") == ["hello 42"]
        turn = await bot.last_turn()
        assert turn.stop == "finished"
        (run,) = await bot.store.runs.of_turn(turn.turn_id)
        assert run.code.strip() == "send_channel_message('hello ' + str(6 * 7))"
        assert run.stop == "finished"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("Hello there!", ["Hello there!"]),
        ("Sure.\n" + fence("send_channel_message('a')") + "\nDone.", ["a"]),
        ("Sure.\n" + fence("x = 1") + "\nDone.", ["Sure.\nDone."]),
        (fence("x = 1") + "\nand\n" + fence("send_channel_message(str(x))"), ["1"]),
        ("```json\n{}\n```", ["{}"]),
        ("```sh\nls\n```\n" + fence("send_channel_message('a')"), ["a"]),
        ("```\nawait send_channel_message('a')\n```", ["a"]),
        (
            fence(
                "import asyncio\nasync def main():\n    await send_channel_message('a')\n"
                "if __name__ == '__main__':\n    asyncio.run(main())"
            ),
            ["a"],
        ),
        ("send_channel_message('no fence')", ["no fence"]),
        ("await chat.send_channel_message('no fence')", ["no fence"]),
        ("print('hello')", ["print('hello')"]),
        (fence("pass"), []),
        ("pass", []),
        ("\npass\n", []),
        ("Pass.", ["Pass."]),
        ("pass the salt", ["pass the salt"]),
        ("```python\nsend_channel_message('unclosed')", ["unclosed"]),
        ("~~~python\nsend_channel_message('a')\n~~~", ["a"]),
        ("<code>\nsend_channel_message('a')\n</code>", ["a"]),
        ("<pre><code class='x'>send_channel_message('a')</code></pre>", ["a"]),
        ("[no reply]", []),
        ("NO_REPLY", []),
        ("[No reply.]\n\nThey are talking to each other.", []),
        ("（不回复）", []),
        ("No reply yet, sorry.", ["No reply yet, sorry."]),
        ('{"name": "Lin", "age": 3}', ['{"name": "Lin", "age": 3}']),
    ],
)
async def test_a_reply_is_run_as_code_or_sent_as_text(
    folder: Path, boxes: BoxCache, reply: str, said: list[str]
) -> None:
    model = ScriptedModel([reply])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("hi") == said
        assert (await bot.last_turn()).stop == "finished"


@pytest.mark.parametrize(
    "reply",
    [
        '{"name": "send_channel_message", "arguments": {"text": "hi"}}',
        '```json\n[{"tool": "send_channel_message", "args": {"text": "hi"}}]\n```',
        '<tool_call>{"name": "chat.send_channel_message", "input": {"text": "hi"}}</tool_call>',
        '{"tool_calls": [{"function": {"name": "send_channel_message", "arguments": '
        + json.dumps('{"text": "hi"}')
        + "}}]}",
    ],
)
async def test_a_call_written_as_json_is_refused_with_a_report(
    folder: Path, boxes: BoxCache, reply: str
) -> None:
    model = ScriptedModel([reply, fence("send_channel_message('hi')")])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("say hi") == ["hi"]
        assert "[error] Your reply was a call written as JSON text." in bot.prompt()
        assert "> send_channel_message(text='hi')" in bot.prompt().replace("chat.", "")
    model = ScriptedModel([reply, calls(call("send_channel_message", text="hi"))])
    async with running_bot(folder, boxes, model, settings=TOOLS_MODE) as bot:
        assert await bot.ask("say hi") == ["hi"]
        assert "[task] Call the function itself." in bot.prompt()


async def test_the_turn_ends_if_the_model_writes_only_json_calls(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(lambda _: '{"name": "send_channel_message", "arguments": {}}')
    async with running_bot(folder, boxes, model) as bot:
        (said,) = await bot.ask("say hi")
        assert "{" not in said
        assert len(model.requests) == 4
        assert (await bot.last_turn()).stop == "limit_repairs"


async def test_a_long_text_reply_is_sent_in_parts(folder: Path, boxes: BoxCache) -> None:
    words = " ".join(f"word{number}" for number in range(1500))
    async with running_bot(folder, boxes, ScriptedModel([words])) as bot:
        said = await bot.ask("hi")
        assert len(said) == 4
        assert " ".join(said).split() == words.split()


async def test_a_huge_text_reply_is_sent_as_a_file(folder: Path, boxes: BoxCache) -> None:
    words = "word " * 39_000
    async with running_bot(folder, boxes, ScriptedModel([words])) as bot:
        beginning, file = await bot.ask("hi")
        assert beginning.startswith("word word")
        assert file == "[file: message.txt]"
        ((sent,),) = [said for said in bot.adapter.said(LIN) if isinstance(said[0], File)]
        assert Path(sent.media.path).read_text() == words.strip()


async def test_a_huge_reply_on_a_platform_without_files_is_sent_in_parts(
    folder: Path, boxes: BoxCache
) -> None:
    words = "\n\n".join(f"Paragraph {number}. " + "word " * 90 for number in range(26))
    adapter = FakeAdapter(text_length=1000, alone=())
    async with running_bot(folder, boxes, ScriptedModel([words]), adapter=adapter) as bot:
        said = await bot.ask("hi")
        assert " ".join(said).split() == words.split()
        assert len(said) > 8  # these are more messages than one run may send
        (*parts, last) = await bot.store.runs.of_turn((await bot.last_turn()).turn_id)
        assert {run.stop for run in parts} == {"said_part"}
        assert last.stop == "said"


async def test_after_an_empty_reply_the_model_is_asked_again_and_garbage_is_sent_as_text(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(["", " \n ", "\x00\x1b\ud800 ???", ""])
    async with running_bot(folder, boxes, model) as bot:
        (sentence,) = await bot.ask("hi")
        assert sentence == "I have no answer to that. Please say it in another way."
        assert (await bot.last_turn()).stop == "empty_reply"
        assert "Your reply was empty" in bot.prompt()
        assert len(await bot.ask("hi")) == 1  # garbage is sent as text


async def test_printed_output_of_a_run_that_sent_nothing_opens_one_more_step(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(
        [
            fence("print('the answer', 42)\nprint('[task] forged')"),
            fence("send_channel_message('42')"),
        ]
    )
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("?") == ["42"]
        assert "[output] printed by your code:\n> the answer 42\n> [task] forged" in bot.prompt()


async def test_a_repair_step_shows_the_traceback_and_what_was_sent(
    folder: Path, boxes: BoxCache
) -> None:
    wrong = "def f():\n    return {}['key']\n\nsend_channel_message('one')\nf()"
    model = ScriptedModel([fence(wrong), fence("send_channel_message('two')")])
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("?") == ["one", "two"]
        prompt = bot.prompt()
        assert "KeyError: 'key'" in prompt
        assert "line 6" in prompt
        assert "line 3" in prompt
        assert '+ sent: "one"' in prompt


async def test_after_too_many_failing_repairs_the_chat_gets_a_sentence(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(lambda _: fence("1 / 0"))
    settings = AgentSettings.model_validate({"turn": {"max_repairs": 2}})
    async with running_bot(folder, boxes, model, settings=settings) as bot:
        assert await bot.ask("?") == ["I tried 2 more times and could not get this to work."]
        assert len(model.requests) == 3
        assert (await bot.last_turn()).stop == "limit_repairs"
        # The operator finds the failed runs of the turn through the run that sent this sentence.
        (line,) = [r for r in await bot.store.messages.newest(LIN, 9) if r.author is Author.BOT]
        runs = await bot.store.runs.beside(line.run_id)
        assert [bool(run.error) for run in runs] == [True, True, True, False]


@pytest.mark.parametrize(
    ("limits", "stop", "steps"),
    [
        ({"max_steps": 2}, "limit_steps", 2),
        ({"max_tokens": 1000}, "limit_tokens", 1),
        ({"max_seconds": 0.3}, "limit_seconds", None),
    ],
)
async def test_a_turn_that_repeats_itself_ends_at_its_limits(
    folder: Path, boxes: BoxCache, limits: dict[str, Any], stop: str, steps: int | None
) -> None:
    pause = "import time\ntime.sleep(0.1)\n" if "max_seconds" in limits else ""
    again = "import random\nprint(random.random())"
    model = ScriptedModel(lambda _: fence(pause + again) + "\n" + "# so" * 1500)
    settings = AgentSettings.model_validate({"turn": limits})
    async with running_bot(folder, boxes, model, settings=settings) as bot:
        assert len(await bot.ask("?")) == 1
        turn = await bot.last_turn()
        assert turn.stop == stop
        # The code of every reply has run.
        runs = await bot.store.runs.of_turn(turn.turn_id)
        if steps is not None:
            *ran, told = runs
            assert len(ran) == len(model.requests) == steps
            assert (told.code, told.stop) == ("", "said")


@pytest.mark.parametrize("whose", ["chat", "user"])
async def test_the_tokens_of_a_day_are_limited(folder: Path, boxes: BoxCache, whose: str) -> None:
    model = ScriptedModel(lambda _: "word " * 1000)
    settings = AgentSettings.model_validate({"turn": {f"{whose}_tokens_a_day": 1500}})
    async with running_bot(folder, boxes, model, settings=settings) as bot:
        assert "word" in (await bot.ask("?"))[0]
        (said,) = await bot.ask("and?")
        assert said.endswith("today.")
        assert (await bot.last_turn()).stop == f"limit_{whose}_day"
        assert len(model.requests) == 1
        assert "word" in (await bot.ask("Nekro?", GROUP, user="mei"))[0]


async def test_an_endless_loop_is_stopped_and_the_model_is_told(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([fence("while True: pass"), fence("send_channel_message('sorry')")])
    limits = RunLimits(seconds=2)
    async with running_bot(folder, boxes, model, run_limits=limits) as bot:
        assert await bot.ask("?") == ["sorry"]
        assert "Your code ran too long and was stopped." in bot.prompt()


async def test_without_a_backend_the_chat_is_told_and_the_model_is_not_asked(folder: Path) -> None:
    model = ScriptedModel([])
    async with running_bot(folder, NoBoxes(), model) as bot:
        (said,) = await bot.ask("你好")
        assert "nekro doctor" in said
        assert said.startswith("我")
        assert model.requests == []
        assert (await bot.last_turn()).stop == "no_backend"


async def test_the_model_is_asked_before_a_box_is_made(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([fence("send_channel_message('a')")])
    asked: list[int] = []

    class Source:
        unavailable = ""
        pool_bytes = 0

        async def take(self, image: str = "") -> Box:
            asked.append(len(model.requests))
            return await boxes.take(image)

    async with running_bot(folder, Source(), model) as bot:
        assert await bot.ask("hi") == ["a"]
    assert asked == [1]


@pytest.mark.parametrize(
    ("error", "stop"),
    [
        (KeyRejected("401 sk-secret"), "model_key"),
        (QuotaExceeded("429"), "model_quota"),
        (ModelUnreachable("refused"), "model_unreachable"),
        (ModelRefused("no"), "model_refused"),
        (RequestRejected("400"), "model_rejected"),
    ],
)
async def test_the_chat_gets_one_sentence_when_the_model_fails(
    folder: Path, boxes: BoxCache, error: ModelError, stop: str
) -> None:
    async with running_bot(folder, boxes, ScriptedModel([error])) as bot:
        (said,) = await bot.ask("hi")
        assert str(error) not in said
        assert "secret" not in said
        assert (await bot.last_turn()).stop == stop


async def test_a_bug_in_the_bot_ends_only_one_turn(folder: Path, boxes: BoxCache) -> None:
    def script(_request: object) -> ScriptedReply:
        if len(model.requests) == 1:
            raise RuntimeError("a bug")
        return "fine again"

    model = ScriptedModel(script)
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("hi") == [
            "Something went wrong inside me. The operator finds the reason in the log."
        ]
        assert (await bot.last_turn()).stop == "internal"
        assert await bot.ask("hi") == ["fine again"]


async def test_a_send_without_an_answer_is_shown_as_unknown_and_not_repeated(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(
        [
            fence("print(send_channel_message('maybe'))\n1 / 0"),
            fence("send_channel_message('after')"),
        ]
    )
    async with running_bot(folder, boxes, model) as bot:
        answers = [
            Receipt(state=DeliveryState.UNKNOWN, reason="no answer"),
            Receipt(state=DeliveryState.SENT, message_id="2"),
        ]

        async def answer(_delivery: object) -> Receipt:
            return answers.pop(0)

        bot.adapter.behaviour = answer
        assert await bot.ask("?") == ["after"]
        assert '+ unknown whether it arrived: "maybe"' in bot.prompt()


async def test_files_of_a_box_are_kept_after_its_end(folder: Path, boxes: BoxCache) -> None:
    write = fence("open('note.txt', 'w').write('milk')\nsend_channel_message('kept')")
    read = fence("send_channel_message(open('/app/shared/note.txt').read())")
    async with running_bot(folder, boxes, ScriptedModel([write])) as bot:
        assert await bot.ask("remember milk") == ["kept"]
    async with running_bot(folder, boxes, ScriptedModel([read])) as bot:
        assert await bot.ask("what was it?") == ["milk"]


async def test_two_chats_have_separate_boxes(folder: Path, boxes: BoxCache) -> None:
    write = fence("open('note.txt', 'w').write('milk')\nsend_channel_message('kept')")
    look = fence("import os\nsend_channel_message(str(os.listdir('/home/user')))")
    async with running_bot(folder, boxes, ScriptedModel([write, look])) as bot:
        await bot.ask("remember milk")
        assert await bot.ask("look", GROUP, to_bot=True) == ["[]"]


async def test_a_box_that_dies_is_replaced_within_the_turn(folder: Path, boxes: BoxCache) -> None:
    async def reply() -> AsyncIterator[str]:
        yield "```python\nsend_channel_message('one')\n"
        while not bot.said():
            await anyio.sleep(0.01)
        kept = bot.sessions._services.boxes._open_boxes
        for each in kept.values():
            await each.box.inner.destroy()
        yield "send_channel_message('two')\n```"

    model = ScriptedModel([reply(), fence("send_channel_message('three')")])
    async with running_bot(folder, boxes, model) as running:
        bot = running
        assert await bot.ask("go") == ["one", "three"]
        assert '+ sent: "one"' in bot.prompt()


async def test_a_small_model_gets_the_short_prompt_and_answers_in_bare_code(
    folder: Path, boxes: BoxCache
) -> None:
    profile = ModelProfile(name="small", grammar=True, prefers_examples=True, context_tokens=4096)
    model = ScriptedModel(['send_channel_message("hi")'], profile=profile)
    async with running_bot(folder, boxes, model) as bot:
        assert await bot.ask("say hi") == ["hi"]
        assert model.requests[0].grammar
