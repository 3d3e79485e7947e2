"""The segments and events of many OneBot implementations become the bot's own segments and
values."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.onebot_v11.incoming import (
    Json,
    chat_of,
    read_notice,
    read_segments,
    sender_of,
    time_of,
    wire_id,
    words,
)
from nekro_core.api.chat import (
    EVERYONE,
    ChatKind,
    File,
    Forward,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
    Segment,
    Text,
    Unknown,
    Video,
    Voice,
    decode_segments,
    encode_segments,
)


class Nobody:
    """Answers the adapter's lookups without a connection. The answers have only what the segment
    itself contains."""

    async def media(self, kind: str, data: Json) -> Media:
        return Media(name=words(data.get("file")))

    async def quoted(self, message_id: str) -> Reply:
        return Reply(message_id)

    async def bundle(self, data: Json) -> Forward | Unknown:
        return Unknown("forward", words(data.get("id")))


def segment(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


SEGMENTS: list[tuple[Any, tuple[Segment, ...]]] = [
    ([segment("text", text="hi")], (Text("hi"),)),
    ([segment("text", text=12)], (Text("12"),)),
    ([segment("text")], (Text(""),)),
    ([segment("text", text="[CQ:at,qq=all]")], (Text("[CQ:at,qq=all]"),)),
    ([segment("text", text="a\ud800b\0")], (Text("a\ufffdb\ufffd"),)),
    ([segment("text", text="\ud83d\ude00")], (Text("😀"),)),
    ([segment("text", text="\u202eabc\u200b")], (Text("\u202eabc\u200b"),)),
    ([segment("at", qq="10001")], (Mention("10001"),)),
    ([segment("at", qq=10001, name="Lin")], (Mention("10001", "Lin"),)),
    ([segment("at", qq="all")], (Mention(EVERYONE),)),
    ([segment("reply", id=5)], (Reply("5"),)),
    ([segment("image", file="a.png")], (Image(Media(name="a.png")),)),
    ([segment("record", file="a.amr")], (Voice(Media(name="a.amr")),)),
    ([segment("video", file="a.mp4")], (Video(Media(name="a.mp4")),)),
    ([segment("file", file="a.txt")], (File(Media(name="a.txt")),)),
    ([segment("forward", id="x")], (Unknown("forward", "x"),)),
    ([segment("poke", type="1", id="2003")], (Notice("poke", target_id="2003"),)),
    ([segment("face", id="66")], (Unknown("face", "爱心"),)),
    ([segment("face", id="9999")], (Unknown("face", '{"id": "9999"}'),)),
    (
        [segment("face", id="9999", raw={"faceText": "/斜眼笑"})],
        (Unknown("face", "斜眼笑"),),
    ),
    (
        [segment("json", data='{"app": "com.tencent.miniapp", "prompt": "[QQ小程序]两步路"}')],
        (Unknown("json", "[QQ小程序]两步路"),),
    ),
    ([segment("json", data='{"app": ')], (Unknown("json", '{"data": "{\\"app\\": "}'),)),
    ([segment("json", data="[1]")], (Unknown("json", '{"data": "[1]"}'),)),
    ([segment("mface", summary="[cat]", emoji_id="a")], (Unknown("mface", "[cat]"),)),
    ([segment("json", data="{}", prompt="a card")], (Unknown("json", "a card"),)),
    ([segment("dice", result="4")], (Unknown("dice", "4"),)),
    ([{"type": "rps"}], (Unknown("rps", "{}"),)),
    ([{"type": "text", "data": None}], (Text(""),)),
    (segment("text", text="not in a list"), (Text("not in a list"),)),
    ("a [CQ:at,qq=5] &amp; &#91;b&#93;", (Text("a "), Mention("5"), Text(" & [b]"))),
    ("[CQ:image,file=a.png,url=http://x/?a=1&amp;b=2]", (Image(Media(name="a.png")),)),
    ("[CQ:broken", (Text("[CQ:broken"),)),
    ("", ()),
    ([], ()),
    (None, ()),
    (5, (Unknown("malformed", "5"),)),
    (["hi"], (Unknown("malformed", "'hi'"),)),
    ([{"data": {}}], (Unknown("malformed", "{'data': {}}"),)),
]


@pytest.mark.parametrize(("wire", "expected"), SEGMENTS, ids=lambda value: repr(value)[:50])
async def test_segments_are_read(wire: Any, expected: tuple[Segment, ...]) -> None:
    assert await read_segments(wire, Nobody()) == expected


async def test_ten_thousand_mentions_are_read() -> None:
    wire = [segment("at", qq=str(number)) for number in range(10_000)]
    assert len(await read_segments(wire, Nobody())) == 10_000


NOTICES: list[tuple[dict[str, Any], Notice | None]] = [
    (
        {"notice_type": "notify", "sub_type": "poke", "user_id": 1, "target_id": 2},
        Notice("poke", "1", "2"),
    ),
    (
        {"notice_type": "notify", "sub_type": "lucky_king", "user_id": 1, "target_id": 2},
        Notice("lucky_king", "1", "2"),
    ),
    ({"notice_type": "notify", "sub_type": "input_status", "user_id": 1}, None),
    (
        {"notice_type": "group_increase", "sub_type": "invite", "user_id": 1, "operator_id": 3},
        Notice("join", "3", "1", "invite"),
    ),
    (
        {"notice_type": "group_decrease", "sub_type": "leave", "user_id": 1},
        Notice("leave", "1", "1", "leave"),
    ),
    (
        {"notice_type": "group_ban", "sub_type": "ban", "user_id": 1, "operator_id": 3},
        Notice("group_ban", "3", "1", "ban"),
    ),
    (
        {"notice_type": "group_admin", "sub_type": "set", "user_id": 1},
        Notice("group_admin", "1", "1", "set"),
    ),
    ({"notice_type": "friend_add", "user_id": 1}, Notice("friend_add", "1", "1")),
    ({"notice_type": "client_status"}, None),
    ({"notice_type": "something_new", "user_id": "u"}, Notice("something_new", "u", "u")),
]


@pytest.mark.parametrize(("event", "expected"), NOTICES)
def test_notices_are_read(event: dict[str, Any], expected: Notice | None) -> None:
    assert read_notice(event) == expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"message_type": "group", "group_id": 5, "user_id": 1}, (ChatKind.GROUP, "5")),
        ({"message_type": "private", "user_id": 1}, (ChatKind.PRIVATE, "1")),
        ({"message_type": "private", "user_id": 1, "group_id": 5}, (ChatKind.PRIVATE, "1")),
        ({"message_type": "private", "sender": {"user_id": -1}}, (ChatKind.PRIVATE, "-1")),
        ({"notice_type": "x", "group_id": 5, "user_id": 1}, (ChatKind.GROUP, "5")),
        ({"notice_type": "x", "user_id": 1}, (ChatKind.PRIVATE, "1")),
        ({"notice_type": "x", "group_id": 0, "user_id": 1}, (ChatKind.PRIVATE, "1")),
        ({"notice_type": "x"}, None),
        ({"notice_type": "x", "user_id": {"a": 1}, "group_id": True}, None),
        ({"message_type": "group", "user_id": 1}, None),
        ({"message_type": "guild", "guild_id": "1"}, None),
    ],
)
def test_the_chat_of_an_event_is_recognized(event: dict[str, Any], expected: Any) -> None:
    assert chat_of(event) == expected


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        (5, 5.0),
        ("5", 5.0),
        (1_700_000_000_500, 1_700_000_000.5),
        (None, 9.0),
        ("x", 9.0),
        ([], 9.0),
        (float("nan"), 9.0),
        (float("inf"), 9.0),
        (10**400, 9.0),
        (1e300, 9.0),
        (-5, 9.0),
    ],
)
def test_an_unusable_time_stamp_is_replaced_by_the_present_time(
    stamp: Any, expected: float
) -> None:
    assert time_of({"time": stamp}, 9.0) == expected


@pytest.mark.parametrize(
    ("identity", "wire"),
    [
        ("5", 5),
        ("-5", -5),
        ("--5", "--5"),
        ("007", "007"),
        ("\u0663", "\u0663"),
        ("9" * 5000, "9" * 5000),
        ("", ""),
    ],
)
def test_only_ids_in_plain_ascii_digits_are_sent_as_numbers(identity: str, wire: int | str) -> None:
    assert wire_id(identity) == wire


def test_a_sender_without_a_profile_is_read() -> None:
    assert sender_of({"sender": None, "user_id": 7}).user_id == "7"
    assert sender_of({"anonymous": {"name": "Fox"}, "user_id": 8}).name == "Fox"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
kinds = st.sampled_from(["text", "at", "reply", "image", "forward", "poke", "face"]) | st.text(
    st.characters()
)
messages = (
    st.lists(st.fixed_dictionaries({"type": kinds, "data": anything}) | anything)
    | st.text(st.characters())
    | anything
)


@given(messages)
async def test_any_message_can_be_read_without_an_error(message: Any) -> None:
    segments = await read_segments(message, Nobody())
    assert decode_segments(encode_segments(segments)) == segments


@given(
    st.dictionaries(
        st.sampled_from(
            ["message_type", "notice_type", "group_id", "user_id", "sender", "time", "sub_type",
             "anonymous", "target_id", "operator_id"]
        ),
        anything,
    )
)  # fmt: skip
def test_any_event_can_be_read_without_an_error(event: dict[str, Any]) -> None:
    json.dumps([chat_of(event), time_of(event, 0.0)])
    read_notice(event)
    sender_of(event)
