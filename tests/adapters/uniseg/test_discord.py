"""The Discord adapter without Discord's gateway, with payloads from Discord's documentation."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from nonebot.drivers import Response

from nekro_core.api.adapter import SignRefused
from nekro_core.api.chat import (
    EVERYONE,
    ChatKey,
    DeliveryState,
    File,
    Image,
    Media,
    Mention,
    Reply,
    Text,
    Voice,
)
from tests.adapters.uniseg.peers.discord import CHANNEL, SELF, Discord, message


@pytest.fixture
async def discord(tmp_path: Path) -> AsyncIterator[Discord]:
    async with Discord.connected(tmp_path) as peer:
        yield peer


async def test_a_message_is_received_and_answered(discord: Discord) -> None:
    heard = await discord.say("<@999> a & b <#77>", mentions=[SELF])
    assert str(heard.chat_key) == CHANNEL
    assert heard.segments == (Mention("998"), Text(" a & b #77 "))
    assert heard.to_bot
    assert (heard.sender.user_id, heard.sender.name) == ("111", "Annie")
    assert heard.time == 1_700_000_000
    receipt = await discord.bench.send(CHANNEL, Reply("5001"), Mention("111"), "yes")
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "6001")
    assert discord.sent["content"] == "<@111>yes"
    assert discord.sent["message_reference"]["message_id"] == 5001


async def test_plain_text_mentions_nobody(discord: Discord) -> None:
    await discord.say("hello")
    assert (await discord.bench.send(CHANNEL, "@everyone <@111>")).ok
    rings = discord.sent["allowed_mentions"]
    assert (rings["parse"], rings["users"], rings["roles"]) == ([], [], [])
    assert (await discord.bench.send(CHANNEL, Mention(EVERYONE), "come")).ok
    assert discord.sent["allowed_mentions"]["parse"] == ["everyone"]


async def test_a_direct_message_is_answered_in_its_channel(discord: Discord) -> None:
    heard = await discord.say("hello", channel_id="444", guild_id=..., member=...)
    assert str(heard.chat_key) == "discord-private_111"
    assert heard.to_bot
    assert (await discord.bench.send(heard.chat_key, "hi")).ok
    assert [request.url.path for request in discord.bench.driver.requests] == [
        "/api/v10/channels/444/messages"
    ]


async def test_a_direct_message_to_an_unknown_person_opens_a_channel(discord: Discord) -> None:
    await discord.say("hello")
    assert (await discord.bench.send("discord-private_111", "hi")).ok
    opened, posted = discord.bench.driver.requests
    assert (opened.json["recipient_id"], posted.url.path.split("/")[4]) == (111, "444")


async def test_a_reply_has_the_author_of_the_answered_message(discord: Discord) -> None:
    answered = message("earlier words", id="4001", author=SELF)
    heard = await discord.say(
        "why?", message_reference={"message_id": "4001"}, referenced_message=answered
    )
    assert heard.segments[0] == Reply("4001", "998", "earlier words")
    assert heard.to_bot


async def test_attachments_keep_their_addresses_and_kinds(discord: Discord) -> None:
    def attachment(number: int, name: str, mime: str) -> dict[str, Any]:
        url = f"https://cdn.discordapp.com/{number}/{name}"
        return {"id": str(number), "filename": name, "content_type": mime, "size": 3,
                "url": url, "proxy_url": url}  # fmt: skip

    found = [
        attachment(1, "image.png", "image/png"),
        attachment(2, "image.png", "image/png"),
        attachment(3, "voice-message.ogg", "audio/ogg"),
        attachment(4, "a.txt", "text/plain"),
    ]
    heard = await discord.say("see", attachments=found)
    assert [type(segment) for segment in heard.segments] == [Text, Image, Image, Voice, File]
    assert discord.bench.host.media.asked == [each["url"] for each in found]


async def test_two_pictures_with_the_same_name_are_both_sent(
    discord: Discord, tmp_path: Path
) -> None:
    await discord.say("hello")
    pictures = []
    for number in (1, 2):
        path = tmp_path / f"{number}.png"
        path.write_bytes(b"picture %d" % number)
        pictures.append(Image(Media(path=str(path), name="image.png", mime="image/png", size=9)))
    assert (await discord.bench.send(CHANNEL, "look", *pictures)).ok
    files = discord.bench.driver.requests[-1].files
    assert {content for _, (_, content, *_) in files if content} >= {b"picture 1", b"picture 2"}


async def test_a_deleted_message_is_recalled(discord: Discord) -> None:
    await discord.say("oops")
    gone = {"id": "5001", "channel_id": "333", "guild_id": "222"}
    await discord.event("MESSAGE_DELETE", gone)
    await discord.bench.host.until(lambda: bool(discord.bench.host.recalled))
    assert discord.bench.host.recalled == [(ChatKey.parse(CHANNEL), "5001")]


@pytest.mark.parametrize(
    ("status", "state"),
    [(403, "rejected"), (429, "pending"), (500, "unknown"), (502, "unknown")],
)
async def test_the_platforms_answer_decides_the_state_of_a_send(
    discord: Discord, status: int, state: str
) -> None:
    await discord.say("hello")
    discord.bench.driver.answer = lambda request: Response(
        status, content=json.dumps({"code": 1, "message": "no", "retry_after": 0.01}),
        headers={"Retry-After": "0", "X-RateLimit-Scope": "user"},
    )  # fmt: skip
    assert (await discord.bench.send(CHANNEL, "hi")).state == state


async def test_markdown_is_sent_as_it_is_with_tables_as_code(discord: Discord) -> None:
    await discord.say("hello")
    source = "**Go** [there](https://example.org)\n\n| a | long |\n|---|---|\n| 1 | 2 |"
    assert (await discord.bench.send(CHANNEL, Text(source, markdown=True))).ok
    assert discord.sent["content"] == (
        "**Go** [there](https://example.org)\n\n```\na  long\n─  ────\n1  2\n```"
    )


PRIVATE = "discord-private_111"


async def test_a_channel_sees_that_the_bot_is_typing(discord: Discord) -> None:
    await discord.say("hello")
    adapter = discord.bench.adapter
    await adapter.show_typing(ChatKey.parse(CHANNEL), typing=True)
    await adapter.show_typing(ChatKey.parse(CHANNEL), typing=False)  # Discord ends it by itself
    assert [(each.method, each.url.path) for each in discord.bench.driver.requests] == [
        ("POST", "/api/v10/channels/333/typing")
    ]


async def test_a_private_chat_without_earlier_events_sees_that_the_bot_is_typing(
    discord: Discord,
) -> None:
    await discord.say("hello")
    await discord.bench.adapter.show_typing(ChatKey.parse(PRIVATE), typing=True)
    assert [each.url.path for each in discord.bench.driver.requests] == [
        "/api/v10/users/@me/channels",
        "/api/v10/channels/444/typing",
    ]


async def test_a_message_gets_the_bots_reaction(discord: Discord) -> None:
    await discord.say("hello")
    await discord.bench.adapter.react(ChatKey.parse(CHANNEL), "5001", "👀")
    (request,) = discord.bench.driver.requests
    assert request.method == "PUT"
    assert request.url.raw_path.endswith("/messages/5001/reactions/%F0%9F%91%80/@me")


@pytest.mark.parametrize(("status", "refused"), [(400, True), (403, True), (404, False)])
async def test_only_a_refused_reaction_and_not_a_missing_message_raises_sign_refused(
    discord: Discord, status: int, refused: bool
) -> None:
    await discord.say("hello")
    discord.bench.driver.answer = lambda _: Response(
        status, content=json.dumps({"code": 10014, "message": "Unknown Emoji"})
    )
    with pytest.raises(Exception, match="Unknown Emoji") as error:
        await discord.bench.adapter.react(ChatKey.parse(CHANNEL), "5001", "👀")
    assert isinstance(error.value, SignRefused) == refused


async def test_an_edit_replaces_the_text_and_notifies_nobody(discord: Discord) -> None:
    await discord.say("hello")
    key = ChatKey.parse(CHANNEL)
    receipt = await discord.bench.edit(key, "6001", "better, @everyone")
    assert (receipt.state, receipt.message_id) == (DeliveryState.SENT, "6001")
    (request,) = discord.bench.driver.requests
    assert (request.method, request.url.path) == ("PATCH", "/api/v10/channels/333/messages/6001")
    assert request.json["content"] == "better, @everyone"
    assert request.json["allowed_mentions"]["parse"] == []


@pytest.mark.parametrize(
    ("status", "state"), [(403, "rejected"), (404, "rejected"), (429, "pending"), (502, "unknown")]
)
async def test_the_platforms_answer_decides_the_state_of_an_edit(
    discord: Discord, status: int, state: str
) -> None:
    await discord.say("hello")
    discord.bench.driver.answer = lambda request: Response(
        status, content=json.dumps({"code": 1, "message": "no", "retry_after": 0.01}),
        headers={"Retry-After": "0", "X-RateLimit-Scope": "user"},
    )  # fmt: skip
    assert (await discord.bench.edit(ChatKey.parse(CHANNEL), "6001", "hi")).state == state
