"""A text that would take too many messages is sent as its beginning and a file."""

import base64
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.chat import (
    DeliveryState,
    File,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Mention,
    Reply,
    Segment,
    Segments,
    Text,
    plain_text,
)
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.adapter import Capabilities
from nekro_core.delivery.media.store import MediaStore
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.delivery.outbound.split import long_text_as_file, split
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.store import Store
from tests.delivery.conftest import GROUP, QUICK, Clock
from tests.delivery.fakes import FakeAdapter

CAN = Capabilities(
    inline=frozenset({Text, Mention, Reply, Image}), alone=frozenset({File}), text_length=20
)
PICTURE = Image(Media(path="/p.png"))


def words_of(file: Segment) -> str:
    assert isinstance(file, File)
    return base64.b64decode(file.media.url.partition(",")[2]).decode()


@pytest.mark.parametrize(
    "segments",
    [
        pytest.param((Text("a" * 60),), id="exactly the allowed number of messages"),
        pytest.param((Text("short"), PICTURE) * 20, id="many pictures with few words"),
        pytest.param((), id="nothing"),
    ],
)
def test_a_text_that_is_short_enough_is_sent_as_text(segments: Segments) -> None:
    assert long_text_as_file(segments, CAN, 3) == segments


@pytest.mark.parametrize(
    "can",
    [
        pytest.param(replace(CAN, alone=frozenset()), id="no files"),
        pytest.param(replace(CAN, file_bytes=60), id="the file is too large"),
    ],
)
def test_on_a_platform_that_cannot_send_the_file_a_long_text_is_sent_in_pieces(
    can: Capabilities,
) -> None:
    assert long_text_as_file((Text("a" * 61),), can, 3) == (Text("a" * 61),)


def test_the_beginning_ends_at_a_sentence_or_line() -> None:
    text = "One line.\nAnother line that is longer. " + "And so on. " * 9
    said = long_text_as_file((Reply("7"), Text(text), PICTURE, Text("end")), CAN, 3)
    assert said[:3] == (Reply("7"), Text("One line."), Text(" …"))
    assert words_of(said[3]) == text
    assert said[4:] == (PICTURE, Text("end"))


def test_a_mention_in_the_file_becomes_a_name() -> None:
    mention = Mention("7", "Bo")
    said = long_text_as_file((Text("x" * 70), mention, Text("what do you think?")), CAN, 3)
    assert words_of(said[-1]) == "x" * 70 + "@Bo what do you think?"


_segment = st.one_of(
    st.text("ab \n.。é😀", max_size=50).map(Text),
    st.sampled_from([Mention("7", "Bo"), Reply("1"), PICTURE]),
)


@given(st.lists(_segment, max_size=8).map(tuple), st.integers(1, 4))
def test_no_part_of_a_text_is_lost(segments: Segments, most: int) -> None:
    said = long_text_as_file(segments, CAN, most)
    assert long_text_as_file(said, CAN, most) == said
    whole = "".join(
        words_of(each) if isinstance(each, File) else plain_text((each,))
        for place, each in enumerate(said)
        # The file contains the beginning too, so the beginning is left out here.
        if each == PICTURE
        or not any(isinstance(later, File) for later in _until_picture(said[place + 1 :]))
    )
    assert whole == plain_text(segments)
    for piece in split(said, CAN):
        assert not piece.problem
        assert len(plain_text(s for s in piece.segments if isinstance(s, Text | Mention))) <= 20


def _until_picture(segments: Segments) -> Segments:
    cut = next((at for at, each in enumerate(segments) if each == PICTURE), len(segments))
    return segments[:cut]


async def test_the_chat_gets_the_beginning_and_the_file(
    store: Store, adapter: FakeAdapter, clock: Clock, tmp_path: Path
) -> None:
    settings = DeliverySettings.model_validate({**QUICK.model_dump(), "text_pieces": 2})
    text = "All of it. " * 100
    async with (
        MediaStore(tmp_path) as media,
        Outbox(store, {"fake": adapter}, Broadcast(), settings, media=media, clock=clock) as outbox,
    ):
        receipts = await outbox.send(GROUP, (Text(text),), run_id="r1")
        assert [receipt.state for receipt in receipts] == [DeliveryState.SENT] * 2
        (beginning, more), (file,) = adapter.said()
        assert plain_text((beginning,)) == ("All of it. " * 8).rstrip()
        assert more == Text(" …")
        assert isinstance(file, File)
        assert (file.media.name, file.media.mime) == ("message.txt", "text/plain")
        assert Path(file.media.path).read_text() == text
        adapter.sent.clear()
        bundle = Forward(tuple(ForwardedMessage("1", "Mei", (Text("word"),)) for _ in range(40)))
        await outbox.send(GROUP, (bundle,))
        _, (file,) = adapter.said()
        assert isinstance(file, File)
        assert Path(file.media.path).read_text() == "\n".join(["Mei:\n> word"] * 40)
    off = settings.model_copy(update={"text_pieces": 0})
    async with (
        MediaStore(tmp_path) as media,
        Outbox(store, {"fake": adapter}, Broadcast(), off, media=media, clock=clock) as outbox,
    ):
        adapter.sent.clear()
        await outbox.send(GROUP, (Text("a" * 500),))
        assert len(adapter.sent) == 5
