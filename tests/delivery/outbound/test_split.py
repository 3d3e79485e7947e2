"""A message is split into pieces, so that one platform call can send each piece."""

from dataclasses import replace
from itertools import pairwise

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
def test_captions_have_their_own_limit_and_characters_count_as_on_the_platform(
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
def test_a_message_is_split_into_calls(
    segments: tuple[Segment, ...], pieces: tuple[tuple[Segment, ...], ...]
) -> None:
    assert split(segments, CAN) == tuple(Piece(piece) for piece in pieces)


def test_a_segment_that_cannot_be_sent_becomes_a_piece_with_a_reason() -> None:
    bad = Image(Media(name="a.png", problem="the picture is damaged"))
    pieces = split((HI, Video(Media()), Notice("poke"), bad, HI), CAN)
    assert [piece.problem for piece in pieces] == [
        "",
        "this platform cannot send a video",
        "this platform cannot send a notice",
        "a.png: the picture is damaged",
        "",
    ]


def test_on_a_plain_platform_mentions_become_text_and_replies_are_left_out() -> None:
    (piece,) = split((REPLY, Mention("1", "Lin"), HI), PLAIN)
    assert plain_text(piece.segments) == "@Lin hi"


_BEST_FIRST = ("\n\n", "\n", "。", "！", "？", ". ", "! ", "? ", "；", "; ", "，", ", ", "、", " ")


@pytest.mark.parametrize(("better", "worse"), [*pairwise(_BEST_FIRST)])
def test_a_text_is_cut_at_the_best_place_even_if_a_worse_place_comes_later(
    better: str, worse: str
) -> None:
    first, rest = f"{'a' * 11}{better}", f"bb{worse}{'c' * 20}"
    pieces = split((Text(first + rest),), CAN)
    assert pieces[0] == Piece((Text(first.rstrip()),))
    assert plain_text(pieces[1].segments).startswith("bb")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("aaaa bbbb cccc dddd eeee", ("aaaa bbbb cccc dddd", "eeee")),
        (f"{'a' * 10} {'b' * 20}", ("a" * 10, "b" * 20)),
        (f"{'a' * 9} {'b' * 20}", (f"{'a' * 9} {'b' * 10}", "b" * 10)),
        (f"{'a' * 18}. {'b' * 5}", (f"{'a' * 18}.", "b" * 5)),
        (f"{'a' * 19}. {'b' * 5}", (f"{'a' * 19}.", "b" * 5)),
        (f"{'a' * 20}\n\n \n{'b' * 5}", ("a" * 20, "b" * 5)),
        (f"{'a' * 20}\u3000{'b' * 5}", ("a" * 20, f"\u3000{'b' * 5}")),
        (f"{'a' * 20}\n", ("a" * 20,)),
        (f"{'a' * 20}XX", ("a" * 20, "XX")),
        ("a" * 20, ("a" * 20,)),
    ],
)
def test_a_long_text_is_cut_into_calls(text: str, pieces: tuple[str, ...]) -> None:
    assert split((Text(text),), CAN) == tuple(Piece((Text(piece),)) for piece in pieces)


@pytest.mark.parametrize(("lead", "cut"), [(69, 69), (68, 100)])
def test_a_character_with_more_than_thirty_one_marks_may_be_cut(lead: int, cut: int) -> None:
    """A character with very many marks can be as long as a piece. If it were never cut, the piece
    before it would end early."""
    text = "a" * lead + "e" + "\u0301" * 60
    first, *_ = split((Text(text),), replace(CAN, text_length=100))
    assert first == Piece((Text(text[:cut]),))


LIN = Mention("1", "Lin")  # people see "@Lin ", which has five characters


@pytest.mark.parametrize(
    ("segments", "pieces"),
    [
        ((Text("a" * 15), LIN), ((Text("a" * 15), LIN),)),
        ((Text("a" * 16), LIN), ((Text("a" * 16),), (LIN,))),
        ((LIN, Text("a" * 15)), ((LIN, Text("a" * 15)),)),
        ((Text("a" * 10), Text("b" * 15)), ((Text("a" * 10), Text("b" * 10)), (Text("b" * 5),))),
        ((Text("a" * 11), Text("b" * 15)), ((Text("a" * 11),), (Text("b" * 15),))),
        (
            (Text("a" * 11), Text("b" * 25)),
            ((Text("a" * 11),), (Text("b" * 20),), (Text("b" * 5),)),
        ),
        ((Text(" " * 11), Text("b" * 25)), ((Text(" " * 11), Text("b" * 9)), (Text("b" * 16),))),
        ((REPLY, Text("a" * 25)), ((REPLY, Text("a" * 20)), (Text("a" * 5),))),
        ((PICTURE, PICTURE, HI, PICTURE), ((PICTURE, PICTURE, HI), (PICTURE,))),
        ((PICTURE, Text("a" * 25)), ((PICTURE, Text("a" * 20)), (Text("a" * 5),))),
    ],
)
def test_a_piece_is_filled_before_the_next_one_begins(
    segments: tuple[Segment, ...], pieces: tuple[tuple[Segment, ...], ...]
) -> None:
    assert split(segments, CAN) == tuple(Piece(piece) for piece in pieces)


def test_the_limit_of_a_text_also_limits_a_caption() -> None:
    can = replace(CAN, caption_length=50)
    assert split((PICTURE, Text("a" * 25)), can) == (
        Piece((PICTURE, Text("a" * 20))),
        Piece((Text("a" * 5),)),
    )


def test_a_character_longer_than_the_limit_of_a_call_is_still_sent() -> None:
    can = replace(CAPTIONS, text_length=1)
    assert split((Text("😀"),), can) == (Piece((Text("😀"),)),)
    assert split((Text("a😀b"),), can) == tuple(Piece((Text(one),)) for one in "a😀b")


def test_the_error_for_a_medium_without_a_name_says_its_kind() -> None:
    bad = Media(problem="it is damaged")
    pieces = split((Voice(bad), HI, File(bad)), CAN)
    assert [piece.problem for piece in pieces] == [
        "voice: it is damaged",
        "",
        "file: it is damaged",
    ]
    assert [piece.segments for piece in pieces] == [(Voice(bad),), (HI,), (File(bad),)]


@pytest.mark.parametrize(
    "one", ["e\u0301", "👩🏽\u200d🚀", "1\ufe0f\u20e3", "☎\ufe0e", "👍\U0001f3fb", "👍\U0001f3ff"]
)
def test_a_grapheme_is_not_cut(one: str) -> None:
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
def test_no_text_is_lost_and_no_piece_is_too_large(segments: list[Segment]) -> None:
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
