"""A message that was sent before a restart is not sent again: the code that sends it again gets the
stored receipt. Each stored delivery replaces only one send."""

from collections.abc import Sequence
from typing import Any

import pytest

from nekro_core.agent.turn.already_sent import DeduplicatingSender, was_answered
from nekro_core.chat import (
    ChatKey,
    DeliveryState,
    File,
    Image,
    Media,
    Mention,
    Receipt,
    RunRecord,
    Segment,
    Text,
    Video,
    Voice,
)
from nekro_core.store import DeliveryRow

LIN = ChatKey.parse("fake-private_lin")
MEI = ChatKey.parse("fake-private_mei")


class Wire:
    def __init__(self) -> None:
        self.sent: list[tuple[ChatKey, Sequence[Segment]]] = []
        self.runs: list[str] = []

    async def send(
        self, chat_key: ChatKey, segments: Sequence[Segment], *, run_id: str = ""
    ) -> tuple[Receipt, ...]:
        self.sent.append((chat_key, tuple(segments)))
        self.runs.append(run_id)
        return (Receipt(state=DeliveryState.SENT),)


def row(*segments: Segment, position: int = 0, **more: Any) -> DeliveryRow:
    known: dict[str, Any] = {"state": DeliveryState.SENT, "chat_key": LIN, "message_id": "7"}
    known["run_id"] = "r"
    return DeliveryRow(
        delivery_id="d",
        position=position,
        segments=segments,
        reason="",
        record_seq=0,
        created=0,
        changed=0,
        **(known | more),
    )


async def test_a_message_that_was_sent_before_is_skipped_once_and_its_second_copy_is_sent() -> None:
    wire = Wire()
    once = DeduplicatingSender(wire, [row(Text("ha"))])
    (receipt,) = await once.send(LIN, (Text("ha"),))
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "7")
    assert wire.sent == []
    await once.send(LIN, (Text("ha"),))
    assert len(wire.sent) == 1


async def test_a_split_message_is_recognized_as_a_whole() -> None:
    wire = Wire()
    rows = [
        row(Mention("1"), Text("one ")),
        row(Text("two"), position=1, state=DeliveryState.UNKNOWN),
        row(Text("three")),
    ]
    once = DeduplicatingSender(wire, rows)
    receipts = await once.send(LIN, (Mention("1"), Text("one two")))
    assert [each.state for each in receipts] == [DeliveryState.SENT, DeliveryState.UNKNOWN]
    await once.send(LIN, (Text("three"),))
    assert wire.sent == []


async def test_media_are_recognized_by_their_digest() -> None:
    wire = Wire()
    once = DeduplicatingSender(wire, [row(Image(Media(path="/a.png", name="a", sha256="12")))])
    await once.send(LIN, (Image(Media(path="/b.png", name="b", sha256="12")),))
    assert wire.sent == []
    await once.send(LIN, (Image(Media(path="/b.png", sha256="13")),))
    assert len(wire.sent) == 1


async def test_other_texts_other_chats_and_unsent_messages_are_sent() -> None:
    wire = Wire()
    once = DeduplicatingSender(
        wire,
        [
            row(Text("a")),
            row(Text("b"), state=DeliveryState.REJECTED),
            row(Text("c"), state=DeliveryState.DROPPED),
        ],
    )
    for chat, text in ((LIN, "A"), (MEI, "a"), (LIN, "b"), (LIN, "c")):
        await once.send(chat, (Text(text),))
    assert len(wire.sent) == 4


async def test_a_stored_receipt_says_sent_before_a_restart_and_a_new_send_keeps_its_run() -> None:
    wire = Wire()
    once = DeduplicatingSender(
        wire, [row(Text("ha")), row(Text("ho"), state=DeliveryState.UNKNOWN)]
    )
    assert await once.send(LIN, (Text("ha"),), run_id="r2") == (
        Receipt(state=DeliveryState.SENT, message_id="7", reason="sent before a restart"),
    )
    assert (await once.send(LIN, (Text("hi"),), run_id="r2"))[0].reason == ""
    assert (wire.sent, wire.runs) == ([(LIN, (Text("hi"),))], ["r2"])
    (unknown,) = await once.send(LIN, (Text("ho"),), run_id="r3")
    assert unknown.state is DeliveryState.UNKNOWN


async def test_a_message_sent_after_a_dropped_one_is_recognized() -> None:
    wire = Wire()
    once = DeduplicatingSender(wire, [row(Text("a"), state=DeliveryState.DROPPED), row(Text("b"))])
    await once.send(LIN, (Text("b"),))
    assert wire.sent == []


async def test_two_stored_messages_do_not_count_as_one_message_with_the_words_of_both() -> None:
    wire = Wire()
    once = DeduplicatingSender(wire, [row(Text("one ")), row(Text("two"))])
    await once.send(LIN, (Text("one two"),))
    assert len(wire.sent) == 1, "the joined message was not sent before"
    assert len(await once.send(LIN, (Text("two"),))) == 1
    assert len(await once.send(LIN, (Text("one "),))) == 1
    assert len(wire.sent) == 1


async def test_a_message_without_its_first_part_is_recognized_by_the_rest() -> None:
    wire = Wire()
    once = DeduplicatingSender(wire, [row(Text("two"), position=1)])
    await once.send(LIN, (Text("two"),))
    assert wire.sent == []


async def test_a_part_after_a_rejected_part_is_not_joined_to_an_earlier_message() -> None:
    wire = Wire()
    refused = row(Image(Media(path="/a.png")), state=DeliveryState.REJECTED)
    once = DeduplicatingSender(wire, [row(Text("one")), refused, row(Text("two"), position=1)])
    await once.send(LIN, (Text("one"),))
    await once.send(LIN, (Text("two"),))
    assert wire.sent == []


@pytest.mark.parametrize("kind", [Image, Voice, Video, File])
async def test_media_without_a_digest_are_recognized_by_their_path(kind: type[Image]) -> None:
    wire = Wire()
    once = DeduplicatingSender(wire, [row(kind(Media(path="/a", name="a")))])
    await once.send(LIN, (kind(Media(path="/a", name="another name")),))
    assert wire.sent == []
    once = DeduplicatingSender(wire, [row(kind(Media(path="/a", sha256="12")))])
    await once.send(LIN, (kind(Media(path="/a", sha256="13")),))
    await once.send(LIN, (kind(Media(path="/b")),))
    assert len(wire.sent) == 2
    once = DeduplicatingSender(wire, [row(kind(Media(path="/a")))])
    await once.send(LIN, (kind(Media(path="/b")),))
    assert len(wire.sent) == 3


async def test_only_adjacent_texts_are_joined() -> None:
    wire = Wire()
    ann = Mention("1")
    once = DeduplicatingSender(wire, [row(Text("a"), ann, Text("b")), row(ann, Text("ab"))])
    await once.send(LIN, (Text("ab"), ann))
    await once.send(LIN, (ann, Text("a"), Text("b")))
    await once.send(LIN, (Text("a"), ann, Text("b")))
    assert wire.sent == [(LIN, (Text("ab"), ann))]


# ---- had a killed process already answered?


def run(run_id: str = "r", stop: str = "finished", output: str = "") -> RunRecord:
    return RunRecord(
        run_id=run_id,
        chat_key=LIN,
        code="",
        output=output,
        stop=stop,
        error="",
        started=0,
        seconds=0,
    )


SAID = row(Text("here you are"))
REFUSED = row(Text("here you are"), state=DeliveryState.REJECTED)
OF_AN_EARLIER_RUN = row(Text("a moment"), run_id="before")


@pytest.mark.parametrize(
    ("runs", "sent", "answered"),
    [
        ([], [SAID], False),
        ([run()], [], False),
        ([run()], [SAID], True),
        ([run(output="7")], [SAID], True),
        ([run()], [REFUSED], False),
        ([run()], [row(Text("?"), state=DeliveryState.UNKNOWN)], True),
        ([run("before"), run()], [OF_AN_EARLIER_RUN], True),
        ([run("before"), run(output=" \n")], [OF_AN_EARLIER_RUN], True),
        ([run("before"), run(output="7")], [OF_AN_EARLIER_RUN], False),
        ([run(), run("later", output="7")], [SAID], False),
        ([run(stop="error")], [SAID], False),
        ([run(stop="")], [SAID], False),
        ([run(stop="said")], [SAID], True),
        ([run(stop="said")], [REFUSED], False),
        ([run(stop="said"), run("later", stop="error")], [SAID], False),
    ],
)
def test_a_turn_was_answered_if_its_last_run_finished_and_a_message_was_sent(
    runs: list[RunRecord], sent: list[DeliveryRow], answered: bool
) -> None:
    assert was_answered(runs, sent) is answered
