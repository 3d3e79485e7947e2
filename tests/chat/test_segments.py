"""Segments that are stored as JSON are read back unchanged."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core import chat
from nekro_core.chat import (
    ChatKey,
    ChatMessage,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Mention,
    Notice,
    Sender,
    Text,
    Voice,
    decode_segments,
    encode_segments,
    plain_text,
)

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MEDIA = st.builds(Media, path=WORDS, url=WORDS, name=WORDS, size=st.integers(0, 2**40))
FLAT: st.SearchStrategy[Any] = st.one_of(
    st.builds(chat.Text, WORDS),
    st.builds(chat.Mention, WORDS, WORDS),
    st.builds(chat.Reply, WORDS, WORDS, WORDS),
    st.builds(chat.Image, MEDIA),
    st.builds(chat.Voice, MEDIA, WORDS),
    st.builds(chat.Video, MEDIA),
    st.builds(chat.File, MEDIA),
    st.builds(chat.Notice, WORDS, WORDS, WORDS, WORDS),
    st.builds(chat.Unknown, WORDS, WORDS),
)
SEGMENTS = st.lists(
    st.recursive(
        FLAT,
        lambda inner: st.builds(
            Forward,
            st.lists(
                st.builds(ForwardedMessage, WORDS, WORDS, st.lists(inner, max_size=3).map(tuple)),
                max_size=3,
            ).map(tuple),
        ),
        max_leaves=8,
    ),
    max_size=5,
).map(tuple)


@given(SEGMENTS)
def test_stored_segments_are_read_back_unchanged(segments: chat.Segments) -> None:
    assert decode_segments(encode_segments(segments)) == segments


@given(SEGMENTS)
def test_every_segment_has_a_plain_text(segments: chat.Segments) -> None:
    assert isinstance(plain_text(segments), str)


def test_a_stored_segment_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_segments('[{"type":"hologram"}]')


def test_the_plain_text_of_a_message_names_its_media() -> None:
    segments = (
        Mention("20002", "neko"),
        Text("look: "),
        Image(Media(name="cat.png")),
        Voice(Media(), "meow"),
    )
    assert plain_text(segments) == "@neko look: [image][voice: meow]"


def test_only_a_message_that_consists_of_one_notice_is_a_notice() -> None:
    def message(*segments: chat.Segment) -> ChatMessage:
        return ChatMessage(
            chat_key=ChatKey.parse("web-group_1"),
            message_id="1",
            sender=Sender("7"),
            segments=segments,
            time=0.0,
            account="bot",
        )

    assert message(Notice("poke", "7", "bot")).notice == Notice("poke", "7", "bot")
    assert message(Text("poke")).notice is None
    assert message(Text("a"), Notice("poke")).notice is None


def test_the_public_names_are_sorted_and_exist() -> None:
    assert chat.__all__ == sorted(chat.__all__, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(chat, name) for name in chat.__all__)
