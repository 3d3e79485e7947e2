"""Events from other people's clients are read into segments."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.matrix.incoming import (
    answered_id,
    body_of,
    is_for,
    read_message,
    read_notice,
    replaced_id,
    said_at,
    thread_of,
    user_of,
    with_mentions,
)
from nekro_core.api.adapter import Expected
from nekro_core.api.chat import (
    EVERYONE,
    File,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
    Segments,
    Text,
    Unknown,
    Voice,
    encode_segments,
    plain_text,
)

BOT, LIN, MO = "@bot:home", "@lin:home", "@mo:far.example"
PILL = '<a href="https://matrix.to/#/{0}">{1}</a>'


class Lookups:
    """Answers the adapter's lookups of media and quotations without a server."""

    async def media(self, server: str, media_id: str, name: str, expect: Expected) -> Media:
        return Media(path=f"/{server}/{media_id}", name=name, mime=expect)

    async def quoted(self, event_id: str) -> Reply:
        return Reply(event_id, LIN, "quoted")


async def read(content: Mapping[str, Any], kind: str = "m.room.message") -> Segments:
    return await read_message({"type": kind, "content": content}, Lookups(), BOT)


BOTS = PILL.format(BOT, "Bot")


def html(body: str, formatted: str, *people: str, **more: Any) -> dict[str, Any]:
    return {
        "msgtype": "m.text",
        "body": body,
        "format": "org.matrix.custom.html",
        "formatted_body": formatted,
        "m.mentions": {"user_ids": list(people)} if people else {},
        **more,
    }


MENTIONS = [
    ("Element", html("Bot: hi", f"{BOTS}: hi", BOT), (Mention(BOT, "Bot"), Text(" hi"))),
    (
        "in the middle",
        html("ask Mo and Bot!", f"ask {PILL.format(MO, 'Mo')} and {BOTS}!", MO, BOT),
        (Text("ask "), Mention(MO, "Mo"), Text(" and "), Mention(BOT, "Bot"), Text("!")),
    ),
    (
        "with an at sign",
        html("hi @Bot", f"hi {BOTS}", BOT),
        (Text("hi "), Mention(BOT, "Bot")),
    ),
    (
        "by the id",
        {"msgtype": "m.text", "body": f"{BOT} hi", "m.mentions": {"user_ids": [BOT]}},
        (Mention(BOT), Text(" hi")),
    ),
    (
        "not in the text",
        {"msgtype": "m.text", "body": "hi", "m.mentions": {"user_ids": [BOT]}},
        (Mention(BOT), Text("hi")),
    ),
    (
        "before m.mentions, by a link",
        {k: v for k, v in html("Bot hi", f"{BOTS} hi").items() if k != "m.mentions"},
        (Mention(BOT, "Bot"), Text(" hi")),
    ),
    ("before m.mentions, by the id", {"body": f"{BOT}: hi"}, (Mention(BOT), Text(" hi"))),
    ("a link that calls nobody", html("Bot hi", f"{BOTS} hi"), (Text("Bot hi"),)),
    (
        "a link in a quotation",
        {"body": "hi", "format": "org.matrix.custom.html",
         "formatted_body": f"<mx-reply>{BOTS}</mx-reply>hi"},
        (Text("hi"),),
    ),
    (
        "everybody",
        {"msgtype": "m.text", "body": "@room hi", "m.mentions": {"room": True}},
        (Mention(EVERYONE), Text("hi")),
    ),
    ("markup is text", html("<b>x</b> & y", "<b>x</b>"), (Text("<b>x</b> & y"),)),
    ("two of one name", html("Bo Bo", "", BOT, MO), (Mention(BOT), Mention(MO), Text("Bo Bo"))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "wanted"), [m[1:] for m in MENTIONS], ids=[m[0] for m in MENTIONS]
)
def test_mentions_are_read(content: dict[str, Any], wanted: Segments) -> None:
    assert with_mentions(content["body"], content, BOT) == wanted


def test_a_message_that_mentions_or_answers_the_bot_is_for_the_bot() -> None:
    assert is_for({}, (Mention(BOT),), BOT)
    assert is_for({}, (Reply("$1", BOT),), BOT)
    assert not is_for({}, (Reply("$1", LIN), Mention(MO), Mention(EVERYONE)), BOT)
    assert not is_for({"msgtype": "m.notice"}, (Mention(BOT),), BOT)


async def test_media_are_read() -> None:
    mxc = {"url": "mxc://far.example/abc_-1", "body": "a.bin"}
    assert await read({"msgtype": "m.image", **mxc}) == (
        Image(Media(path="/far.example/abc_-1", name="a.bin", mime="image")),
    )
    (voice,) = await read({"msgtype": "m.audio", "org.matrix.msc3245.voice": {}, **mxc})
    assert isinstance(voice, Voice)
    (song,) = await read({"msgtype": "m.audio", **mxc})
    assert isinstance(song, File), "a piece of music is not a voice message"
    assert (await read(mxc, "m.sticker")) == (
        Image(Media(path="/far.example/abc_-1", name="a.bin", mime="image")),
    )
    captioned = await read({"msgtype": "m.image", "filename": "a.png", **mxc, "body": "look"})
    assert captioned[1:] == (Text("look"),)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://10.0.0.1/x",
        "mxc://",
        "mxc://a/b/c",
        "mxc://a/../x",
        "mxc://a/b?c",
        "mxc://a b/c",
        7,
    ],
)
async def test_only_an_mxc_address_is_fetched(url: Any) -> None:
    (image,) = await read({"msgtype": "m.image", "body": "x.png", "url": url})
    assert isinstance(image, Image)
    assert image.media.problem


async def test_emotes_notices_places_and_unknown_types_are_read() -> None:
    assert await read({"msgtype": "m.emote", "body": "waves"}) == (Text("* waves"),)
    assert await read({"msgtype": "m.notice", "body": "beep"}) == (Text("beep"),)
    (place,) = await read({"msgtype": "m.location", "body": "home", "geo_uri": "geo:1,2"})
    assert place == Unknown("location", "home geo:1,2")
    (odd,) = await read({"msgtype": "com.example.new", "n": 1})
    assert isinstance(odd, Unknown)
    assert odd.kind == "com.example.new"
    assert await read({"msgtype": "com.example.new", "body": "in words"}) == (Text("in words"),)


def test_replies_and_threads_are_read() -> None:
    reply = {"m.in_reply_to": {"event_id": "$1"}}
    thread = {"rel_type": "m.thread", "event_id": "$0"}
    assert answered_id({"m.relates_to": reply}) == "$1"
    assert answered_id({"m.relates_to": thread | reply}) == "$1"
    assert answered_id({"m.relates_to": thread | reply | {"is_falling_back": True}}) == ""
    begin = thread | {"is_falling_back": True, "m.in_reply_to": {"event_id": "$0"}}
    assert answered_id({"m.relates_to": begin}) == "$0"
    assert thread_of({"m.relates_to": begin}) == "$0"
    assert thread_of({"m.relates_to": reply}) is None
    assert replaced_id({"m.relates_to": {"rel_type": "m.replace", "event_id": "$1"}}) == "$1"


@pytest.mark.parametrize(
    ("body", "relation", "wanted"),
    [
        ("> <@a:b> said\n> more\n\nmy answer", True, "my answer"),
        ("> <@a:b> said\n\n> mine\nrest", True, "> mine\nrest"),
        ("> <@a:b> said\n\nmine", False, "> <@a:b> said\n\nmine"),
        ("> my own quotation", True, "> my own quotation"),
        ("> <@a:b> said", True, ""),
    ],
)
def test_the_quotation_before_a_reply_is_removed(body: str, relation: bool, wanted: str) -> None:
    relates = {"m.relates_to": {"m.in_reply_to": {"event_id": "$1"}}} if relation else {}
    assert body_of({"body": body, **relates}) == wanted


@pytest.mark.parametrize(
    ("link", "user"),
    [
        ("https://matrix.to/#/@lin:home", "@lin:home"),
        ("https://matrix.to/#/%40lin%3Ahome", "@lin:home"),
        ("https://matrix.to/#/@lin:home?via=home", "@lin:home"),
        ("matrix:u/lin:home", "@lin:home"),
        ("https://matrix.to/#/!room:home", ""),
        ("https://evil.example/#/@lin:home", ""),
        ("javascript:alert(1)", ""),
        ("http://[", ""),
    ],
)
def test_links_to_people_give_their_user_ids(link: str, user: str) -> None:
    assert user_of(link) == user


def _member(now: str, before: str | None, *, who: str = MO, by: str = LIN) -> dict[str, Any]:
    unsigned = {"prev_content": {"membership": before}} if before else {}
    return {
        "type": "m.room.member",
        "sender": by,
        "state_key": who,
        "content": {"membership": now},
        "unsigned": unsigned,
    }


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        (_member("join", "invite", by=MO), Notice("join", MO, MO)),
        (_member("leave", "join", by=MO), Notice("leave", MO, MO)),
        (_member("leave", "join"), Notice("leave", LIN, MO, "kick")),
        (_member("ban", "join"), Notice("leave", LIN, MO, "ban")),
        (_member("join", "join", by=MO), None),  # Only the name of the member changed.
        (_member("leave", "invite", by=MO), None),  # The member declined an invitation.
        (_member("invite", None), None),
        (_member("join", "invite", who=BOT, by=BOT), None),
        ({"type": "m.room.topic", "sender": LIN, "content": {"topic": "x"}}, None),
    ],
)
def test_notices_are_read(event: dict[str, Any], wanted: Notice | None) -> None:
    assert read_notice(event, BOT) == wanted


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
_names = st.sampled_from(
    [
        "msgtype",
        "body",
        "formatted_body",
        "format",
        "url",
        "filename",
        "m.mentions",
        "m.relates_to",
        "file",
    ]
)
_values = _json | st.sampled_from(
    ["m.text", "m.image", "mxc://a/b", "org.matrix.custom.html", "<a href='https://matrix.to/#/@a:b'>x"]
) | st.fixed_dictionaries({"user_ids": _json, "room": _json, "event_id": _json, "rel_type": _json,
                           "m.in_reply_to": _json})  # fmt: skip


@settings(max_examples=40)
@given(st.dictionaries(_names, _values))
async def test_any_content_can_be_read_without_an_error(content: dict[str, Any]) -> None:
    segments = await read(content)
    assert isinstance(plain_text(segments), str)
    encode_segments(segments).encode()
    read_notice({"type": "m.room.member", "content": content, "unsigned": content}, BOT)
    thread_of(content)
    replaced_id(content)


@pytest.mark.parametrize(
    ("stamp", "said"),
    [
        (1_000_000_000_500, 1_000_000_000.5),
        (0, 0.0),
        (2_000_050_000_000, 2_000_050_000.0),
        (2_000_090_000_000, 2_000_000_000.0),
        (1e30, 2_000_000_000.0),
        (float("nan"), 2_000_000_000.0),
        (-1, 2_000_000_000.0),
        ("1000", 2_000_000_000.0),
        (None, 2_000_000_000.0),
    ],
)
def test_a_time_stamp_in_the_far_future_is_replaced(stamp: object, said: float) -> None:
    assert said_at({"origin_server_ts": stamp}, 2_000_000_000.0) == said
