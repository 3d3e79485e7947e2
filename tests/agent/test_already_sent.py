"""What left before a restart is answered for, once for each time that it left."""

from collections.abc import Sequence
from typing import Any

from nekro_core.agent.turn.already_sent import DeduplicatingSender
from nekro_core.chat import ChatKey, DeliveryState, Image, Media, Mention, Receipt, Segment, Text
from nekro_core.store import DeliveryRow

LIN = ChatKey.parse("fake-private_lin")
MEI = ChatKey.parse("fake-private_mei")


class Wire:
    def __init__(self) -> None:
        self.sent: list[tuple[ChatKey, Sequence[Segment]]] = []

    async def send(
        self, chat_key: ChatKey, segments: Sequence[Segment], *, run_id: str = ""
    ) -> tuple[Receipt, ...]:
        self.sent.append((chat_key, tuple(segments)))
        return (Receipt(state=DeliveryState.SENT),)


def row(*segments: Segment, position: int = 0, **more: Any) -> DeliveryRow:
    known: dict[str, Any] = {"state": DeliveryState.SENT, "chat_key": LIN, "message_id": "7"}
    return DeliveryRow(
        delivery_id="d",
        run_id="r",
        position=position,
        segments=segments,
        reason="",
        record_seq=0,
        created=0,
        changed=0,
        **(known | more),
    )


async def test_a_message_that_left_is_not_sent_again_but_its_twin_is() -> None:
    wire = Wire()
    once = DeduplicatingSender(wire, [row(Text("ha"))])
    (receipt,) = await once.send(LIN, (Text("ha"),))
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "7")
    assert wire.sent == []
    await once.send(LIN, (Text("ha"),))
    assert len(wire.sent) == 1


async def test_a_message_that_was_split_is_known_as_a_whole() -> None:
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


async def test_media_are_known_by_their_contents() -> None:
    wire = Wire()
    once = DeduplicatingSender(wire, [row(Image(Media(path="/a.png", name="a", sha256="12")))])
    await once.send(LIN, (Image(Media(path="/b.png", name="b", sha256="12")),))
    assert wire.sent == []
    await once.send(LIN, (Image(Media(path="/b.png", sha256="13")),))
    assert len(wire.sent) == 1


async def test_other_words_other_chats_and_what_never_left_are_sent() -> None:
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
