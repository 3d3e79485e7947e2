"""The tests call the tools of the chat plugin as code in a box calls them."""

import io
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image

from nekro_core.chat import (
    Author,
    DeliveryState,
    Media,
    Mention,
    Receipt,
    Record,
    Reply,
    Segment,
    Sender,
    Text,
)
from nekro_core.chat import Image as ImageSegment
from nekro_core.media.converter import MediaConverter
from nekro_core.memory.search.finder import MessageFinder
from nekro_core.plugins.host.builtin import builtin_folder
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.store import Store
from nekro_core.tools.content import ImageContent, TextContent
from nekro_core.tools.names import ToolSet
from nekro_core.tools.outcome import Outcome, RichObservation, ToolCallFailed, ToolReturn
from tests.plugins.world import GROUP, World


@pytest.fixture
async def tools(world: World, tmp_path: Path) -> AsyncIterator[ToolSet]:
    alone = tmp_path / "builtin"
    alone.mkdir()
    (alone / "chat").symlink_to(builtin_folder("plugins") / "chat")
    async with MediaConverter() as converter, world.bot(builtin=alone) as registry:
        world.services = replace(world.services, pictures=converter)
        yield registry.tools_for(GROUP)


async def run(
    world: World, tools: ToolSet, tool_name: str, /, *args: Any, **kwargs: Any
) -> Outcome:
    tool = tools.resolve(tool_name)
    assert tool is not None
    return await call_tool(tool, world.ctx(), args, kwargs)


def picture(size: tuple[int, int], kind: str = "PNG", mode: str = "RGB", **options: Any) -> bytes:
    target = io.BytesIO()
    Image.new(mode, size, "red").save(target, kind, **options)
    return target.getvalue()


async def test_a_text_is_sent(world: World, tools: ToolSet) -> None:
    assert await run(world, tools, "send_channel_message", "hello") == ToolReturn("sent")
    assert world.outgoing.sent == [(GROUP, (Text("hello", markdown=True),), "run-1")]


def said(seq: int, user_id: str, name: str, *segments: Segment) -> Record:
    return Record(
        seq=seq,
        chat_key=GROUP,
        author=Author.PERSON,
        segments=segments,
        time=1.0,
        message_id=str(seq),
        sender=Sender(user_id, name),
    )


def replace_id(record: Record, message_id: str) -> Record:
    return msgspec.structs.replace(record, message_id=message_id)


TALK = [
    said(75, "10001", "Lin", Text("hello, ask 4711 or 4712-x")),
    said(76, "10002", "Mei", Mention("10003", "Kei"), Text("look")),
    said(77, "10004", "Mei", Text("me too")),
]


async def test_mentions_and_replies_are_sent(world: World, tools: ToolSet) -> None:
    world.journal.records += TALK
    await run(world, tools, "send_channel_message", "hi", mention=10001, reply_to=77)
    await run(world, tools, "send_channel_message", "hi", ["@lin", "10003", "4711"], "#75")
    first, second = (segments for _, segments, _ in world.outgoing.sent)
    assert first == (Reply("77"), Mention("10001", "Lin"), Text(" hi", markdown=True))
    people = (Mention("10001", "Lin"), Mention("10003", "Kei"), Mention("4711"))
    assert second == (Reply("75"), *people, Text(" hi", markdown=True))


async def test_ids_that_begin_with_an_at_sign_or_a_hash_are_found(
    world: World, tools: ToolSet
) -> None:
    world.journal.records += [
        said(78, "@lin:example.org", "Lin", Text("hi")),
        msgspec.structs.replace(said(79, "1", "Mei", Text("hi")), message_id="#79"),
    ]
    await run(world, tools, "send_channel_message", "hi", "@lin:example.org", "#79")
    ((_, segments, _),) = world.outgoing.sent
    assert segments == (
        Reply("#79"),
        Mention("@lin:example.org", "Lin"),
        Text(" hi", markdown=True),
    )


@pytest.mark.parametrize(
    ("kwargs", "told"),
    [
        (
            {"mention": "Tom"},
            'nobody here is known as "Tom"; give a user id of: 10001 ("Lin"), 10003 ("Kei"), 10002',
        ),
        ({"mention": "mei"}, 'several people are called "mei"; give a user id of: 10002 ("Mei"), '),
        ({"mention": "471"}, 'nobody here is known as "471"'),
        ({"mention": "4712"}, 'nobody here is known as "4712"'),
        ({"mention": ""}, 'nobody here is known as ""'),
        ({"reply_to": "99"}, 'this chat has no message "99"; the newest are: #75 ("hello, '),
    ],
)
async def test_an_unknown_person_or_message_is_refused_and_the_known_ones_are_listed(
    world: World, tools: ToolSet, kwargs: dict[str, str], told: str
) -> None:
    world.journal.records += TALK
    outcome = await run(world, tools, "send_channel_message", "hi", **kwargs)
    assert isinstance(outcome, ToolCallFailed)
    assert told in outcome.message
    assert world.outgoing.sent == []


@pytest.mark.parametrize("written", ["#312", "312", "message #312"])
async def test_a_message_is_named_by_the_number_that_prompts_show(
    world: World, tools: ToolSet, written: str
) -> None:
    record = replace_id(said(312, "10001", "Lin", Text("tea?")), "platform-id-9")
    world.journal.records += [*TALK, record]
    await run(world, tools, "send_channel_message", "yes", reply_to=written)
    ((_, segments, _),) = world.outgoing.sent
    assert segments == (Reply("platform-id-9"), Text("yes", markdown=True))


@pytest.mark.parametrize("written", ["@all", " all ", "@ all", "all\u3000"])
@pytest.mark.parametrize("said_before", [(Text("hello all"),), (Mention("all"), Text("hi"))])
async def test_mentioning_all_is_refused_even_if_the_history_contains_such_a_mention(
    world: World, tools: ToolSet, written: str, said_before: tuple[Segment, ...]
) -> None:
    world.journal.records += [*TALK, said(78, "10001", "Lin", *said_before)]
    outcome = await run(world, tools, "send_channel_message", "hi", mention=written)
    assert isinstance(outcome, ToolCallFailed)
    assert "you cannot mention everybody" in outcome.message
    outcome = await run(world, tools, "send_channel_message", "hi", mention="Tom")
    assert isinstance(outcome, ToolCallFailed)
    assert ", all" not in outcome.message
    assert world.outgoing.sent == []


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [
        (("",), {}, "text is empty"),
        (("x" * 20_001,), {}, "at most 20000"),
        (("x",), {"mention": "all"}, "you cannot mention everybody"),
        (("x",), {"mention": ["1", "all"]}, "you cannot mention everybody"),
        (("x",), {"mention": [str(n) for n in range(10_000)]}, "10000 mentions: at most 20"),
        (("x",), {"mention": {"id": 1}}, "argument 'mention': expected str | list[str] | None"),
        ((), {}, "missing 'text'"),
    ],
)
async def test_a_message_that_cannot_be_sent_fails_with_the_reason(
    world: World, tools: ToolSet, args: tuple[Any, ...], kwargs: dict[str, Any], told: str
) -> None:
    outcome = await run(world, tools, "send_channel_message", *args, **kwargs)
    assert isinstance(outcome, ToolCallFailed)
    assert told in outcome.message
    assert world.outgoing.sent == []


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (DeliveryState.UNKNOWN, "nobody knows whether it arrived: do not send it again"),
        (DeliveryState.PENDING, "the account is offline"),
    ],
)
async def test_a_send_reports_its_outcome(
    world: World, tools: ToolSet, state: DeliveryState, told: str
) -> None:
    world.outgoing.answer = Receipt(state=state)
    outcome = await run(world, tools, "send_channel_message", "hi")
    assert isinstance(outcome, ToolReturn)
    assert outcome.value.startswith(told)


async def test_pictures_and_files_are_sent(world: World, tools: ToolSet) -> None:
    world.box.files |= {"chart.png": picture((4, 4)), "report.csv": b"a,b"}
    assert await run(world, tools, "send_image", "chart.png") == ToolReturn("sent")
    assert await run(world, tools, "send_file", "report.csv", name="sums.csv") == ToolReturn("sent")
    assert world.outgoing.texts == ["[image]", "[file: sums.csv]"]
    outcome = await run(world, tools, "send_image", "/etc/passwd")
    assert isinstance(outcome, ToolCallFailed)
    assert "no such file" in outcome.message


@pytest.mark.parametrize(
    ("data", "mime", "size"),
    [
        (picture((4, 3)), "image/jpeg", (4, 3)),
        (picture((3000, 30), "JPEG"), "image/jpeg", (1568, 16)),
        (picture((4, 3), mode="RGBA"), "image/png", (4, 3)),
        (picture((4, 3), "GIF", "P"), "image/jpeg", (4, 3)),
        (picture((4, 3), "WEBP"), "image/jpeg", (4, 3)),
        (picture((4, 3), "TIFF", "CMYK"), "image/jpeg", (4, 3)),
        (picture((4, 3), "PNG", "1"), "image/jpeg", (4, 3)),
        (picture((4, 3), "PNG", "I;16"), "image/jpeg", (4, 3)),
    ],
)
async def test_view_image_shows_a_picture_to_the_model(
    world: World, tools: ToolSet, data: bytes, mime: str, size: tuple[int, int]
) -> None:
    world.box.files["p"] = data
    outcome = await run(world, tools, "view_image", "p")
    assert isinstance(outcome, RichObservation)
    name, seen = outcome.parts
    assert name == TextContent("p:")
    assert isinstance(seen, ImageContent)
    assert seen.mime == mime
    with Image.open(io.BytesIO(seen.data)) as shown:
        assert shown.size == size


async def test_a_viewed_picture_is_encoded_afresh(world: World, tools: ToolSet) -> None:
    world.box.files["p"] = picture((4, 4), "JPEG", comment=b"secret") + b"<script>"
    outcome = await run(world, tools, "view_image", ["p", "p"])
    assert isinstance(outcome, RichObservation)
    assert len(outcome.parts) == 4
    assert isinstance(outcome.parts[1], ImageContent)
    assert b"secret" not in outcome.parts[1].data
    assert b"<script>" not in outcome.parts[1].data


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"p": b"<html>"}, "'p': the picture is damaged"),
        ({"p": b""}, "'p': the picture is damaged"),
        (
            {"p": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9"},
            "'p': the picture is damaged",
        ),
        ({"p": picture((8, 8), "JPEG") + b"\xff\xda" * 201}, "more than 200 scans"),
        ({"p": picture((400, 400))[:300]}, "'p': the picture is damaged"),
        ({"p": picture((9000, 9000), mode="1")}, "9000x9000 pixels, more than 36000000"),
        ({}, "no such file"),
    ],
)
async def test_a_file_that_is_not_a_picture_cannot_be_viewed(
    world: World, tools: ToolSet, files: dict[str, bytes], told: str
) -> None:
    world.box.files |= files
    outcome = await run(world, tools, "view_image", "p")
    assert isinstance(outcome, ToolCallFailed)
    assert told in outcome.message


@pytest.mark.parametrize("paths", [[], ["p"] * 7])
async def test_view_image_takes_one_to_six_pictures(
    world: World, tools: ToolSet, paths: list[str]
) -> None:
    outcome = await run(world, tools, "view_image", paths)
    assert isinstance(outcome, ToolCallFailed)
    assert "give 1 to 6" in outcome.message


async def test_recent_messages_returns_the_history_of_the_chat(
    world: World, tools: ToolSet
) -> None:
    for seq, author in enumerate((Author.PERSON, Author.BOT, Author.SYSTEM), 1):
        world.journal.records.append(
            Record(
                seq=seq,
                chat_key=GROUP,
                author=author,
                segments=(Text(f"line {seq}"),),
                time=float(seq),
                message_id=str(seq),
                sender=Sender("10001", "system"),
            )
        )
    outcome = await run(world, tools, "recent_messages", 3)
    assert isinstance(outcome, ToolReturn)
    assert [(line["author"], line["name"], line["text"]) for line in outcome.value] == [
        ("person", "system", "line 1"),  # a person named "system" stays a person
        ("bot", "you", "line 2"),
        ("system", "system", "line 3"),
    ]


async def test_the_docstring_examples_exist_in_three_languages(tools: ToolSet) -> None:
    tool = tools.resolve("send_channel_message")
    assert tool is not None
    languages = [example.language for example in tool.examples]
    assert all(languages.count(language) >= 4 for language in ("en", "zh", "ja"))


async def test_earlier_messages_are_found_with_their_files(
    world: World, tools: ToolSet, tmp_path: Path
) -> None:
    async with Store.open("sqlite://:memory:") as store:
        file = tmp_path / "kiln.png"
        file.write_bytes(picture((4, 4)))
        kiln = ImageSegment(Media(path=str(file)))
        told = said(1, "10001", "Lin", Text("The kiln is too hot."))
        shown = said(2, "10002", "Mei", Reply("1"), Text("Look, the kiln"), kiln)
        other = msgspec.structs.replace(said(3, "10002", "Mei", Text("hello")), recalled=True)
        for each in (told, shown, other):
            await store.messages.add(each, unique_id=each.message_id)
        store.messages.skip_to(3)
        world.services = replace(world.services, search=MessageFinder(store))
        found = await run(world, tools, "find_messages", "kiln", since="1970-01-01")
        assert isinstance(found, ToolReturn)
        second, first = sorted(found.value, key=lambda each: -each["number"])
        assert first["text"] == "The kiln is too hot."
        assert (first["who"], first["user_id"], first["answers"]) == ("Lin", "10001", None)
        assert second["answers"] == 1
        assert second["files"] == ["/app/uploads/kiln.png"]
        assert second["time"].startswith("1970-01-01 ")
        other = "Did parliament vote on the railway bill, or on the kiln of the minister?"
        weak = await run(world, tools, "find_messages", other)
        assert isinstance(weak, ToolReturn)
        assert "nothing fits well" in weak.value[0]["note"]
        assert "kiln" in weak.value[1]["text"]
        refused = await run(world, tools, "find_messages", "kiln", since="last week")
        assert isinstance(refused, ToolCallFailed)
        assert "write 2025-03-08" in refused.message
        refused = await run(world, tools, "find_messages", "kiln", who="Zoe")
        assert isinstance(refused, ToolCallFailed)
        assert "Mei (10002)" in refused.message
        refused = await run(world, tools, "find_messages", limit=51)
        assert isinstance(refused, ToolCallFailed)
