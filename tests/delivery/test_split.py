"""Cutting a message into what a call can carry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.chat import (
    File,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
    Segment,
    Text,
    Video,
    Voice,
    plain_text,
)
from nekro_core.delivery.adapter import Capabilities
from nekro_core.delivery.outbound.split import Piece, split

CAN = Capabilities(
    inline=frozenset({Text, Mention, Reply, Image}),
    alone=frozenset({Voice, File}),
    text_length=20,
    images_per_call=2,
)
PLAIN = Capabilities(inline=frozenset({Text}), alone=frozenset(), text_length=20)
PICTURE = Image(Media(path="/p.png"))
VOICE = Voice(Media(path="/v.wav"))
FILE = File(Media(path="/f.zip"))
REPLY = Reply("7")
HI = Text("hi")


CAPTIONS = Capabilities(
    inline=frozenset({Text, Reply, Image}),
    alone=frozenset(),
    text_length=20,
    caption_length=5,
    measure=lambda text: len(text.encode("utf-16-le")) // 2,
)


@pytest.mark.parametrize(
    ("segments", "pieces"),
    [
        ((PICTURE, Text("short")), ((PICTURE, Text("short")),)),
        ((PICTURE, Text("longer")), ((PICTURE,), (Text("longer"),))),
        ((Text("longer"), PICTURE, HI), ((Text("longer"),), (PICTURE, HI))),
        ((REPLY, PICTURE, Text("longer")), ((REPLY, PICTURE), (Text("longer"),))),
        ((Text("😀" * 12),), ((Text("😀" * 10),), (Text("😀" * 2),))),
        ((PICTURE, Text("😀😀😀")), ((PICTURE,), (Text("😀😀😀"),))),
    ],
)
def test_captions_are_shorter_and_characters_counted_as_the_platform_does(
    segments: tuple[Segment, ...], pieces: tuple[tuple[Segment, ...], ...]
) -> None:
    assert split(segments, CAPTIONS) == tuple(Piece(piece) for piece in pieces)


@pytest.mark.parametrize(
    ("segments", "pieces"),
    [
        ((), ()),
        ((Text(" \n"),), ()),
        ((REPLY,), ()),
        ((HI, PICTURE), ((HI, PICTURE),)),
        ((HI, VOICE, HI), ((HI,), (VOICE,), (HI,))),
        ((REPLY, VOICE, HI), ((VOICE,), (REPLY, HI))),
        ((REPLY, HI, FILE, HI), ((REPLY, HI), (FILE,), (HI,))),
        ((PICTURE,) * 5, ((PICTURE,) * 2, (PICTURE,) * 2, (PICTURE,))),
        ((Mention("1"),), ((Mention("1"),),)),
        ((Text("one two three. four five"),), ((Text("one two three."),), (Text("four five"),))),
        ((Text("first line\nsecond line"),), ((Text("first line"),), (Text("second line"),))),
        (
            (Text("一二三四五六七八九十。一二三四五六七八九十"),),
            ((Text("一二三四五六七八九十。"),), (Text("一二三四五六七八九十"),)),
        ),
        ((Text("x" * 45),), ((Text("x" * 20),), (Text("x" * 20),), (Text("x" * 5),))),
    ],
)
def test_pieces(segments: tuple[Segment, ...], pieces: tuple[tuple[Segment, ...], ...]) -> None:
    assert split(segments, CAN) == tuple(Piece(piece) for piece in pieces)


def test_what_a_platform_has_not() -> None:
    bad = Image(Media(name="a.png", problem="the picture is damaged"))
    pieces = split((HI, Video(Media()), Notice("poke"), bad, HI), CAN)
    assert [piece.problem for piece in pieces] == [
        "",
        "this platform cannot send a video",
        "this platform cannot send a notice",
        "a.png: the picture is damaged",
        "",
    ]


def test_mentions_become_text_and_replies_go_where_a_platform_has_neither() -> None:
    (piece,) = split((REPLY, Mention("1", "Lin"), HI), PLAIN)
    assert plain_text(piece.segments) == "@Lin hi"


@pytest.mark.parametrize("one", ["e\u0301", "👩🏽\u200d🚀", "1\ufe0f\u20e3"])
def test_what_a_reader_sees_as_one_character_stays_whole(one: str) -> None:
    for lead in range(20):
        pieces = split((Text("x" * lead + one * 5),), CAN)
        for piece in pieces:
            text = plain_text(piece.segments)
            assert text.count(one) * len(one) + text.count("x") == len(text)


@given(
    st.lists(
        st.one_of(
            st.builds(Text, st.text(max_size=70)),
            st.sampled_from([PICTURE, VOICE, FILE, REPLY, Mention("1", "Lin")]),
        ),
        max_size=12,
    )
)
def test_nothing_is_lost_and_no_piece_is_too_large(segments: list[Segment]) -> None:
    pieces = split(segments, CAN)

    def letters(items: list[Segment]) -> str:
        return "".join("".join(s.text.split()) for s in items if isinstance(s, Text))

    sent = [segment for piece in pieces for segment in piece.segments]
    assert letters(sent) == letters(segments)
    for kind in (Image, Voice, File, Mention):
        assert [s for s in sent if isinstance(s, kind)] == [
            s for s in segments if isinstance(s, kind)
        ]
    for piece in pieces:
        words = [s for s in piece.segments if isinstance(s, Text | Mention)]
        assert len(plain_text(words)) <= CAN.text_length
        assert sum(isinstance(s, Image) for s in piece.segments) <= CAN.images_per_call
        assert len(piece.segments) == 1 or not any(
            isinstance(s, Voice | File) for s in piece.segments
        )
