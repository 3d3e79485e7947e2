"""A delivery becomes the content of a Matrix event."""

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.matrix.outgoing import (
    DELIVERY_ID,
    TEXT_LENGTH,
    UnsendableEvent,
    content_of,
    replacing,
)
from nekro_core.api.chat import (
    EVERYONE,
    ChatKey,
    Delivery,
    File,
    Forward,
    Image,
    Media,
    Mention,
    Reply,
    Segment,
    Text,
    Voice,
)

ROOM = ChatKey.parse("matrix-group_!room:home")
EVENT_BYTES = 65_536


async def written(*segments: Segment, key: ChatKey = ROOM, most: int = 1000) -> dict[str, Any]:
    async def upload(data: bytes, media: Media) -> str:
        return f"mxc://home/{len(data)}"

    async def name_of(user: str) -> str:
        return {"@lin:home": "Lin <3"}.get(user, "")

    delivery = Delivery(delivery_id="d1", chat_key=key, segments=segments)
    content = await content_of(delivery, upload, name_of, most)
    assert content.pop(DELIVERY_ID) == "d1"
    return content


def medium(folder: Path, name: str, size: int = 10) -> Media:
    (folder / name).write_bytes(b"x" * size)
    return Media(path=str(folder / name), name=name, size=size)


async def test_a_text_without_mentions_has_an_empty_mentions_field() -> None:
    text = "@lin:home <b>&amp;</b>\n`x`"
    assert await written(Text(text)) == {"msgtype": "m.text", "body": text, "m.mentions": {}}


async def test_a_mention_becomes_a_link_with_an_escaped_name() -> None:
    content = await written(Mention("@lin:home"), Text(" <b>\nhi"), Mention('@"><i>:x'))
    assert content["body"] == 'Lin <3 <b>\nhi@"><i>:x'
    assert content["formatted_body"] == (
        '<a href="https://matrix.to/#/@lin:home">Lin &lt;3</a> &lt;b&gt;<br>hi'
        '<a href="https://matrix.to/#/@%22%3E%3Ci%3E:x">@&quot;&gt;&lt;i&gt;:x</a>'
    )
    assert content["m.mentions"] == {"user_ids": ['@"><i>:x', "@lin:home"]}
    assert (await written(Mention(EVERYONE), Text("hi")))["m.mentions"] == {"room": True}


async def test_replies_and_threads_are_written() -> None:
    assert (await written(Reply("$1"), Text("hi")))["m.relates_to"] == {
        "m.in_reply_to": {"event_id": "$1"}
    }
    thread = ChatKey.parse("matrix-group_!room:home#$0")
    assert (await written(Text("hi"), key=thread))["m.relates_to"] == {
        "rel_type": "m.thread",
        "event_id": "$0",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$0"},
    }


async def test_an_edit_mentions_nobody_again(tmp_path: Path) -> None:
    content = replacing("$1", await written(Mention("@lin:home"), Text("hi"), Reply("$0")))
    assert content["body"] == "* Lin <3hi"
    assert content["m.mentions"] == {}
    assert content["m.relates_to"] == {"rel_type": "m.replace", "event_id": "$1"}
    assert content["m.new_content"]["m.mentions"] == {"user_ids": ["@lin:home"]}
    assert "m.relates_to" not in content["m.new_content"]
    with pytest.raises(UnsendableEvent):
        replacing("$1", await written(File(medium(tmp_path, "a.txt"))))


async def test_media_are_written(tmp_path: Path) -> None:
    content = await written(File(medium(tmp_path, "a.txt")))
    assert content == {
        "msgtype": "m.file",
        "body": "a.txt",
        "filename": "a.txt",
        "info": {"mimetype": "application/octet-stream", "size": 10},
        "url": "mxc://home/10",
        "m.mentions": {},
    }
    voice = await written(Voice(medium(tmp_path, "v.ogg"), "good night"))
    assert (voice["msgtype"], voice["org.matrix.msc3245.voice"]) == ("m.audio", {})
    captioned = await written(Text("a "), Mention("@lin:home"), Image(medium(tmp_path, "a.png")))
    assert (captioned["msgtype"], captioned["body"]) == ("m.image", "a Lin <3")
    assert captioned["filename"] == "a.png"
    assert captioned["m.mentions"] == {"user_ids": ["@lin:home"]}


async def test_a_delivery_that_cannot_become_one_event_is_refused(tmp_path: Path) -> None:
    one = medium(tmp_path, "one.png")
    for segments in (
        (),
        (Reply("$1"),),
        (Text(""),),
        (Image(one), Image(one)),
        (Text("hi"), File(one)),
        (Forward(()),),
        (File(Media(path="/nowhere/at/all", name="gone")),),
        (File(medium(tmp_path, "empty", 0)),),
        (File(medium(tmp_path, "large", 1001)),),
    ):
        with pytest.raises(UnsendableEvent):
            await written(*segments)


@pytest.mark.parametrize("character", ["文", "🎉", "&", '"', "\n", "é"])
async def test_the_longest_text_fits_into_an_event(character: str) -> None:
    """An event with a mention contains the text twice. 1,500 bytes of the event must stay free for
    its other fields."""
    content = await written(Mention("@lin:home"), Text(character * TEXT_LENGTH))
    canonical = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    assert len(canonical) < EVENT_BYTES - 1500


async def test_markdown_is_sent_as_html_beside_its_source() -> None:
    source = "**Go** to [it](https://example.org) <script>x</script>"
    content = await written(Mention("@lin:home"), Text(source, markdown=True))
    assert content["body"] == f"Lin <3{source}"
    assert content["format"] == "org.matrix.custom.html"
    formatted = content["formatted_body"]
    assert "<strong>Go</strong>" in formatted
    assert 'href="https://example.org"' in formatted
    assert "<script>" not in formatted


async def test_markdown_without_marks_is_sent_without_html() -> None:
    assert "formatted_body" not in await written(Text("2 * 3", markdown=True))
