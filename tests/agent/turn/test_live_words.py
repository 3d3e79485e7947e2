"""Prose is sent paragraph by paragraph while the model writes the rest of its reply."""

import dataclasses
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import anyio
import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.agent.turn.paragraphs import Paragraphs
from nekro_core.chat import Delivery, DeliveryState, Receipt, Segments, plain_text
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from tests.agent.bot import fence, running_bot, until
from tests.agent.conftest import BoxCache
from tests.agent.native import TOOLS_MODE, call
from tests.delivery.fakes import FakeAdapter

FIRST = "The sky is blue because air scatters short waves of light more than long ones. " * 3
SECOND = "In the evening the light takes a longer way, and what is left of it is red."
THIRD = "On Mars it is the other way round."
CODE = AgentSettings()


class EditingAdapter(FakeAdapter):
    """A platform on which sent messages can be edited. ``shown`` has the messages as people see
    them, and ``seen`` has every text that people saw, in order."""

    def __init__(self, **more: int) -> None:
        super().__init__(**{"text_length": 4000, **more})  # type: ignore[arg-type]
        self._capabilities = dataclasses.replace(self._capabilities, edit_every_s=0.0)
        self.shown: dict[str, str] = {}
        self.seen: list[str] = []
        self.answers: list[Receipt] = []

    async def send(self, delivery: Delivery) -> Receipt:
        receipt = await super().send(delivery)
        if receipt.ok:
            self._show(receipt.message_id, delivery.segments)
        return receipt

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        if self.answers and not (given := self.answers.pop(0)).ok:
            return given
        self._show(message_id, delivery.segments)
        return Receipt(state=DeliveryState.SENT, message_id=message_id)

    def _show(self, message_id: str, segments: Segments) -> None:
        self.shown[message_id] = plain_text(segments)
        self.seen.append(plain_text(segments))


class Told:
    """A reply that the test lets the model write piece by piece."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[str](100)

    async def stream(self) -> AsyncIterator[str]:
        async with self._receive:
            async for piece in self._receive:
                yield piece

    async def write(self, *pieces: str) -> None:
        for piece in pieces:
            await self._send.send(piece)

    def end(self) -> None:
        self._send.close()


@pytest.mark.parametrize("settings", [CODE, TOOLS_MODE], ids=["code", "tools"])
async def test_the_first_paragraph_is_sent_before_the_model_has_written_the_second(
    folder: Path, boxes: BoxCache, settings: AgentSettings
) -> None:
    told = Told()
    model = ScriptedModel([ScriptedAnswer(chunks=told.stream())])
    async with running_bot(folder, boxes, model, settings=settings) as bot:
        async with bot.turn():
            await bot.say("why is the sky blue?")
            await told.write(FIRST, "\n\n", SECOND[:1])
            await until(lambda: bot.said() == [FIRST.strip()])
            assert model.open_streams == 1  # the model still writes
            await told.write(SECOND[1:])
            told.end()
        assert bot.said() == [FIRST.strip(), SECOND]
        turn = await bot.last_turn()
        assert turn.stop == "finished"
        runs = await bot.store.runs.of_turn(turn.turn_id)
        assert [run.stop for run in runs] == ["said_part", "said"]
        assert len(await bot.store.deliveries.of_turn(turn.turn_id)) == 2


@pytest.mark.parametrize("settings", [CODE, TOOLS_MODE], ids=["code", "tools"])
async def test_where_messages_can_be_edited_the_words_are_one_message_that_grows(
    folder: Path, boxes: BoxCache, settings: AgentSettings
) -> None:
    told, adapter = Told(), EditingAdapter()
    model = ScriptedModel([ScriptedAnswer(chunks=told.stream())])
    async with running_bot(folder, boxes, model, settings=settings, adapter=adapter) as bot:
        async with bot.turn():
            await bot.say("why is the sky blue?")
            await told.write(FIRST + "\n\n" + SECOND[:1])
            await until(lambda: adapter.seen == [FIRST.strip()])
            await told.write(SECOND[1:] + "\n")
            await until(lambda: len(adapter.seen) == 2)
            assert model.open_streams == 1
            await told.write("\n" + THIRD)
            told.end()
        whole = f"{FIRST.strip()}\n\n{SECOND}\n\n{THIRD}".replace("  ", " ")
        assert [*adapter.shown.values()] == [FIRST + f"\n\n{SECOND}\n\n{THIRD}"]
        assert whole.split() == adapter.seen[-1].split()
        (row,) = await bot.store.deliveries.of_turn((await bot.last_turn()).turn_id)
        record = await bot.store.messages.get(row.record_seq)
        assert record is not None
        assert plain_text(record.segments) == adapter.seen[-1]


async def test_a_setting_turns_the_early_sending_off(folder: Path, boxes: BoxCache) -> None:
    told = Told()
    settings = AgentSettings(stream_words=False)
    async with running_bot(folder, boxes, ScriptedModel([told.stream()]), settings=settings) as bot:
        async with bot.turn():
            await bot.say("why is the sky blue?")
            await told.write(FIRST + "\n\n")
            await anyio.sleep(0.1)
            assert bot.said() == []
            await told.write(SECOND)
            told.end()
        assert bot.said() == [f"{FIRST}\n\n{SECOND}"]


async def test_words_sent_before_a_code_block_stay_and_the_next_prompt_says_that_they_were_sent(
    folder: Path, boxes: BoxCache
) -> None:
    told = Told()
    model = ScriptedModel([told.stream(), fence("pass")])
    async with running_bot(folder, boxes, model) as bot:
        async with bot.turn():
            await bot.say("why is the sky blue?")
            await told.write(FIRST + "\n\nIn")
            await until(lambda: bot.said() == [FIRST.strip()])
            await told.write(SECOND[2:] + "\n\n", fence("print(6 * 7)"))
            told.end()
        assert bot.said() == [FIRST.strip()]
        report = bot.prompt()
        assert "[note] Words before your block were sent while you wrote them" in report
        assert '+ sent: "The sky is blue because air' in report
        assert "> 42" in report
        runs = await bot.store.runs.of_turn((await bot.last_turn()).turn_id)
        assert [run.stop for run in runs] == ["said_part", "printed", "finished"]


async def test_words_that_the_code_after_them_sends_again_are_sent_once(
    folder: Path, boxes: BoxCache
) -> None:
    told = Told()
    async with running_bot(folder, boxes, ScriptedModel([told.stream()])) as bot:
        async with bot.turn():
            await bot.say("why is the sky blue?")
            await told.write(FIRST + "\n\nNow:\n")
            await until(lambda: bot.said() == [FIRST.strip()])
            await told.write(fence(f"send_channel_message({FIRST!r})"))
            told.end()
        assert bot.said() == [FIRST.strip()]


async def test_words_before_a_native_call_are_sent_before_the_call_arrives(
    folder: Path, boxes: BoxCache
) -> None:
    told = Told()
    tail = call("send_channel_message", text="There.")
    model = ScriptedModel([ScriptedAnswer(chunks=told.stream(), calls=[tail])])
    async with running_bot(folder, boxes, model, settings=TOOLS_MODE) as bot:
        async with bot.turn():
            await bot.say("why is the sky blue?")
            await told.write(FIRST + "\n\n")
            await until(lambda: bot.said() == [FIRST.strip()])
            await told.write(SECOND)
            told.end()
        assert bot.said() == [FIRST.strip(), SECOND, "There."]
        assert len(model.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        "A short reply.\n\nWith two paragraphs.",
        FIRST + "\n\n" + fence("send_channel_message('x')"),
        "send_channel_message('a')\n\n" + "# a comment\n" * 20 + "\nsend_channel_message('b')",
        '{"name": "send_channel_message", "arguments":\n\n{"text": "hi ' + "x" * 200 + '"}}',
        "[no reply]\n\n" + FIRST + "\n\n",
    ],
)
async def test_text_that_may_be_code_is_not_sent_before_the_end_of_the_reply(
    folder: Path, boxes: BoxCache, reply: str
) -> None:
    told = Told()
    model = ScriptedModel([told.stream(), fence("pass")])
    async with running_bot(folder, boxes, model) as bot, bot.turn():
        await bot.say("?")
        beginning = reply if not reply.startswith(FIRST) else reply[: len(FIRST)]
        await told.write(beginning)
        await anyio.sleep(0.1)
        assert bot.said() == []
        await told.write(reply[len(beginning) :])
        told.end()


async def test_when_a_growing_message_gets_too_long_a_second_message_follows(
    folder: Path, boxes: BoxCache
) -> None:
    told, adapter = Told(), EditingAdapter(text_length=300)
    async with running_bot(folder, boxes, ScriptedModel([told.stream()]), adapter=adapter) as bot:
        async with bot.turn():
            await bot.say("why is the sky blue?")
            await told.write(FIRST + "\n\nI")
            await until(lambda: len(adapter.seen) == 1)
            await told.write(SECOND[1:] + "\n\n", THIRD)
            told.end()
        assert " ".join(adapter.shown.values()).split() == f"{FIRST} {SECOND} {THIRD}".split()


async def test_a_refused_edit_leads_to_a_second_message(folder: Path, boxes: BoxCache) -> None:
    told, adapter = Told(), EditingAdapter()
    refused = Receipt(state=DeliveryState.REJECTED, reason="too late to edit")
    adapter.answers = [refused] * 5
    async with running_bot(folder, boxes, ScriptedModel([told.stream()]), adapter=adapter) as bot:
        async with bot.turn():
            await bot.say("why is the sky blue?")
            await told.write(FIRST + "\n\nI")
            await until(lambda: len(adapter.seen) == 1)
            await told.write(SECOND[1:] + "\n\n", THIRD)
            told.end()
        assert [*adapter.shown.values()] == [FIRST.strip(), f"{SECOND}\n\n{THIRD}"]


BUSY = Receipt(state=DeliveryState.PENDING, reason="the platform asks to wait")
UNANSWERED = Receipt(state=DeliveryState.UNKNOWN, reason="no answer")


async def test_a_platform_that_asks_to_wait_gets_the_edit_later(
    folder: Path, boxes: BoxCache
) -> None:
    told, adapter = Told(), EditingAdapter()
    adapter.answers = [BUSY, BUSY]
    async with running_bot(folder, boxes, ScriptedModel([told.stream()]), adapter=adapter) as bot:
        async with bot.turn():
            await bot.say("why is the sky blue?")
            await told.write(FIRST + "\n\nI")
            await until(lambda: len(adapter.seen) == 1)
            await told.write(SECOND[1:] + "\n")
            await until(lambda: not adapter.answers)
            await until(lambda: len(adapter.seen) == 2)
            await told.write("\n", THIRD)
            told.end()
        assert [*adapter.shown.values()] == [f"{FIRST}\n\n{SECOND}\n\n{THIRD}"]


@pytest.mark.parametrize("answer", [BUSY, UNANSWERED], ids=["busy", "unanswered"])
async def test_the_last_edit_is_repeated_if_the_platform_did_not_take_it(
    folder: Path, boxes: BoxCache, answer: Receipt
) -> None:
    told, adapter = Told(), EditingAdapter()
    adapter.answers = [answer]
    async with running_bot(folder, boxes, ScriptedModel([told.stream()]), adapter=adapter) as bot:
        async with bot.turn():
            await bot.say("why is the sky blue?")
            await told.write(FIRST + "\n\nI")
            await until(lambda: len(adapter.seen) == 1)
            await told.write(SECOND[1:])
            told.end()
        assert [*adapter.shown.values()] == [f"{FIRST}\n\n{SECOND}"]
        (row,) = await bot.store.deliveries.of_turn((await bot.last_turn()).turn_id)
        record = await bot.store.messages.get(row.record_seq)
        assert record is not None
        assert plain_text(record.segments) == f"{FIRST}\n\n{SECOND}"


async def test_words_of_an_unanswered_edit_before_a_code_block_count_as_sent(
    folder: Path, boxes: BoxCache
) -> None:
    told, adapter = Told(), EditingAdapter()
    adapter.answers = [UNANSWERED] * 1000
    model = ScriptedModel([told.stream(), fence("pass")])
    async with running_bot(folder, boxes, model, adapter=adapter) as bot, bot.turn():
        await bot.say("why is the sky blue?")
        await told.write(FIRST + "\n\nI")
        await until(lambda: len(adapter.seen) == 1)
        await told.write(SECOND[1:] + "\n")
        await until(lambda: len(adapter.answers) < 1000)
        await told.write("\n", fence("print(6 * 7)"))
        told.end()
    assert "and what is left of it is red." in bot.prompt()


async def test_words_whose_edits_never_arrive_follow_as_a_message(
    folder: Path, boxes: BoxCache
) -> None:
    told, adapter = Told(), EditingAdapter()
    adapter.answers = [BUSY] * 1000
    async with running_bot(folder, boxes, ScriptedModel([told.stream()]), adapter=adapter) as bot:
        async with bot.turn():
            await bot.say("why is the sky blue?")
            await told.write(FIRST + "\n\nI")
            await until(lambda: len(adapter.seen) == 1)
            await told.write(SECOND[1:])
            told.end()
        assert [*adapter.shown.values()] == [FIRST.strip(), SECOND]


async def test_words_that_the_platform_refused_are_sent_again_with_the_rest_in_one_message(
    folder: Path, boxes: BoxCache
) -> None:
    told, adapter = Told(), FakeAdapter(text_length=4000)
    receipts = [Receipt(state=DeliveryState.REJECTED, reason="no")]

    async def behaviour(_: Delivery) -> Receipt:
        return receipts.pop() if receipts else Receipt(state=DeliveryState.SENT, message_id="m")

    adapter.behaviour = behaviour
    async with running_bot(folder, boxes, ScriptedModel([told.stream()]), adapter=adapter) as bot:
        async with bot.turn():
            await bot.say("why is the sky blue?")
            await told.write(FIRST + "\n\nI")
            await until(lambda: len(adapter.calls) == 1)
            await told.write(SECOND[1:])
            told.end()
        assert bot.said() == [f"{FIRST}\n\n{SECOND}"]


async def test_a_long_reply_does_not_fill_the_chat_with_messages(
    folder: Path, boxes: BoxCache
) -> None:
    reply = "\n\n".join(f"{number}. {SECOND}" for number in range(1, 41))
    async with running_bot(folder, boxes, ScriptedModel([reply])) as bot:
        said = await bot.ask("forty reasons")
        assert len(said) <= 5
        assert " ".join(said).split() == reply.split()


async def test_a_reply_that_breaks_off_ends_with_a_notice_in_the_same_message(
    folder: Path, boxes: BoxCache
) -> None:
    adapter = EditingAdapter()
    model = ScriptedModel([ScriptedAnswer(chunks=[FIRST, "\n\n", 0.1, SECOND], reason="length")])
    async with running_bot(folder, boxes, model, adapter=adapter) as bot:
        async with bot.turn():
            await bot.say("why is the sky blue?")
        (shown,) = adapter.shown.values()
        assert shown.startswith(FIRST + "\n\n" + SECOND + "\n\n")
        assert len(shown) > len(FIRST) + len(SECOND) + 10


def paragraphs(text: str) -> Sequence[str]:
    written, found = Paragraphs(), []
    sent = 0
    for letter in text:
        written.write(letter)
        if written.finished > sent:
            found.append(written.text[sent : written.finished].strip())
            sent = written.finished
    return found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\n\nb\n\nc", ["a", "b"]),
        ("a\nb\n\n\n\nc", ["a\nb"]),
        ("So:\n\na\n\nb", ["So:\n\na"]),
        ("# Title\n\na\n\nb", ["# Title\n\na"]),
        ("a\n\n```json\n{\n\n}\n```\n\nb\n\n", ["a", "```json\n{\n\n}\n```", "b"]),
        ("如下：\n\n一\n\n二", ["如下：\n\n一"]),
        ("\n\n\na", []),
    ],
)
def test_a_paragraph_is_finished_at_the_empty_line_after_it(text: str, found: list[str]) -> None:
    assert paragraphs(text) == found
