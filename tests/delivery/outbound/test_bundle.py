"""A bundle of messages is sent as a bundle within the platform's limits. If the platform has no
bundles, it is sent as quoted text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.chat import (
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
    Unknown,
    Voice,
    every_segment,
    plain_text,
)
from nekro_core.delivery.adapter import BundleLimits, Capabilities
from nekro_core.delivery.outbound.bundle import unbundled
from nekro_core.delivery.outbound.split import split

INLINE = frozenset({Text, Mention, Reply, Image})
WORDS = Capabilities(inline=INLINE, alone=frozenset({Voice, File}), text_length=40)
BUNDLES = Capabilities(
    inline=INLINE,
    alone=frozenset({Voice, File, Forward}),
    text_length=40,
    bundle=BundleLimits(messages=3, media_bytes=100),
)
PICTURE = Image(Media(path="/p.png", name="p.png", size=60))
BROKEN = Image(Media(name="x.png", problem="gone"))
VOICE = Voice(Media(path="/v.wav"), "hello")
FILE = File(Media(path="/f.zip", name="f.zip"))


def says(name: str, *segments: Segment | str) -> ForwardedMessage:
    parts = tuple(Text(each) if isinstance(each, str) else each for each in segments)
    return ForwardedMessage(name.lower(), name, parts)


def bundle(*messages: ForwardedMessage) -> Forward:
    return Forward(messages)


@pytest.mark.parametrize(
    ("segments", "sent"),
    [
        pytest.param(
            (bundle(says("Mei", "one"), says("Bo", "two\nlines")),),
            (Text("Mei:\n> one\nBo:\n> two\n> lines"),),
            id="lines",
        ),
        pytest.param(
            (Text("look:"), bundle(says("Mei", "one")), Text("what now?")),
            (Text("look:\n"), Text("Mei:\n> one\n"), Text("what now?")),
            id="a bundle between two texts",
        ),
        pytest.param(
            (bundle(says("Mei", "look ", PICTURE, " nice"), says("Bo", VOICE)),),
            (Text("Mei:\n> look \n"), PICTURE, Text(">  nice\nBo:\n"), VOICE),
            id="media in their places",
        ),
        pytest.param(
            (bundle(says("Mei", bundle(says("Bo", "a", PICTURE), says("Cy", "b")), "so?")),),
            (Text("Mei:\n> Bo:\n> > a\n"), PICTURE, Text("> Cy:\n> > b\n> so?")),
            id="a bundle in a bundle",
        ),
        pytest.param(
            (bundle(says("Mei", Mention("7", "Bo"), "hi"), says("Bo", Unknown("dice"))),),
            (Text("Mei:\n> @Bo hi\nBo:\n> [dice]"),),
            id="a mention calls nobody",
        ),
        pytest.param(
            (bundle(says("Mei", Reply("1", "7", "what?\nnow?"), "later")),),
            (Text("Mei:\n> > what?\n> > now?\n> later"),),
            id="a reply",
        ),
        pytest.param(
            (bundle(ForwardedMessage("", "", (Text("x"),))),),
            (Text("> x"),),
            id="a message without a sender",
        ),
        pytest.param((bundle(),), (), id="empty"),
        pytest.param((bundle(says("Mei")),), (), id="a message without content"),
    ],
)
def test_on_a_platform_without_bundles_a_bundle_is_quoted(
    segments: Segments, sent: Segments
) -> None:
    assert unbundled(segments, WORDS) == sent


@pytest.mark.parametrize(
    ("segments", "sent"),
    [
        pytest.param(
            (Text("look"), bundle(says("Mei", "one", PICTURE))),
            (Text("look"), bundle(says("Mei", "one", PICTURE))),
            id="unchanged",
        ),
        pytest.param(
            (bundle(*[says("Mei", str(number)) for number in range(4)]),),
            (bundle(*[says("Mei", str(number)) for number in range(3)]), bundle(says("Mei", "3"))),
            id="too many messages",
        ),
        pytest.param(
            (bundle(says("Mei", PICTURE), says("Bo", PICTURE)),),
            (bundle(says("Mei", PICTURE)), bundle(says("Bo", PICTURE))),
            id="too large",
        ),
        pytest.param(
            (bundle(says("Mei", "a" * 50)),),
            (bundle(says("Mei", "a" * 40), says("Mei", "a" * 10)),),
            id="a message too long",
        ),
        pytest.param(
            (bundle(says("Mei", VOICE, "and ", FILE)), Text("so")),
            (
                bundle(says("Mei", "[voice: hello]\nand [file: f.zip]")),
                VOICE,
                FILE,
                Text("so"),
            ),
            id="what a bundle cannot hold follows it",
        ),
        pytest.param(
            (bundle(says("Mei", BROKEN)),),
            (bundle(says("Mei", "[image]")), BROKEN),
            id="a missing picture is refused after the bundle",
        ),
        pytest.param(
            (bundle(says("Mei", "this:", bundle(says("Bo", "a", PICTURE, "b")))),),
            (bundle(says("Mei", "this:\nBo:\n> a\n", PICTURE, "> b")),),
            id="a bundle in a bundle is quoted",
        ),
        pytest.param((bundle(says("Mei", " ")),), (), id="only a blank"),
    ],
)
def test_a_bundle_is_sent_within_the_platforms_limits(segments: Segments, sent: Segments) -> None:
    assert unbundled(segments, BUNDLES) == sent


def test_a_deeply_nested_bundle_is_sent() -> None:
    deep = bundle(says("Mei", "the end"))
    for _ in range(100):
        deep = bundle(says("Mei", deep))
    for can in (WORDS, BUNDLES):
        said = plain_text(every_segment(unbundled((deep,), can)))
        assert "[1 forwarded messages]" in said
        assert len(said) < 1000


_words = st.text("XY \n>", max_size=60).map(Text)
_plain = st.one_of(
    _words, st.sampled_from([PICTURE, VOICE, FILE, BROKEN, Mention("7", "Bo"), Reply("1", "", "q")])
)


def _bundles(inner: st.SearchStrategy[Segment]) -> st.SearchStrategy[Segment]:
    message = st.builds(
        ForwardedMessage,
        sender_id=st.sampled_from(["", "mei"]),
        sender_name=st.sampled_from(["", "Mei"]),
        segments=st.lists(inner, max_size=4).map(tuple),
    )
    return st.lists(message, max_size=5).map(lambda found: Forward(tuple(found)))


@given(
    st.lists(st.recursive(_plain, _bundles, max_leaves=12), max_size=4).map(tuple),
    st.sampled_from([WORDS, BUNDLES]),
)
def test_no_part_of_a_bundle_is_lost(segments: Segments, can: Capabilities) -> None:
    sent = unbundled(segments, can)
    assert unbundled(sent, can) == sent
    pieces = split(sent, can)
    for piece in pieces:
        assert (
            piece.problem
            or len(plain_text(piece.segments)) <= 40
            or any(not isinstance(each, Text | Mention) for each in piece.segments)
        )
        for each in piece.segments:
            if isinstance(each, Forward):
                assert 0 < len(each.messages) <= can.bundle.messages
                assert all(message.segments for message in each.messages)

    def letters(found: Segments) -> str:
        return "".join(
            c
            for each in every_segment(found)
            if isinstance(each, Text)
            for c in each.text
            if c in "XY"
        )

    def media(found: Segments) -> list[str]:
        kinds = Image | Voice | File
        return [type(each).__name__ for each in every_segment(found) if isinstance(each, kinds)]

    out = tuple(each for piece in pieces for each in piece.segments)
    assert letters(segments) == letters(out)
    assert sorted(media(segments)) == sorted(media(out))
