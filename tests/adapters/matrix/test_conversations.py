"""Conversations between people in a room and the bot, on a real homeserver."""

import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from PIL import Image as Picture

from adapters.matrix.intake import Accept
from nekro_core.api.adapter import CannotDo, SignRefused, UncertainDelivery
from nekro_core.api.chat import (
    EVERYONE,
    ChatMessage,
    DeliveryState,
    File,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
    Role,
    Text,
    Unknown,
    Voice,
)
from nekro_core.testing.memory_host import MemoryHost
from tests.adapters.matrix.running import Bot, delivery, key_of, people, running
from tests.peers.recording_proxy import RecordingProxy, Refusal, Silence
from tests.peers.synapse import Person, Synapse

pytestmark = pytest.mark.long


def png() -> bytes:
    buffer = io.BytesIO()
    Picture.new("RGB", (40, 30), (200, 60, 40)).save(buffer, "PNG")
    return buffer.getvalue()


def medium(folder: Path, name: str, data: bytes, mime: str) -> Media:
    path = folder / name
    path.write_bytes(data)
    return Media(path=str(path), name=name, size=len(data), mime=mime)


@dataclass
class Scene:
    """A room with a person called Lin and the bot."""

    bot: Bot
    lin: Person
    room: str

    async def said(self, count: int) -> list[dict]:
        """Wait until the bot has sent this many messages, and return their contents."""
        own = self.bot.account.user_id
        events = await self.lin.until_said(self.room, count, of=own)
        return [event["content"] for event in events]


@pytest.fixture
async def scene(tmp_path: Path, server: Synapse, proxy: RecordingProxy) -> AsyncIterator[Scene]:
    lin, account = await people(server, "lin", "bot")
    room = await lin.make_room(account)
    await account.join(room)
    async with running(tmp_path / "bot", proxy, account) as bot:
        await bot.connected()
        yield Scene(bot, lin, room)


async def test_the_sender_and_the_addressee_of_a_message_are_read(scene: Scene) -> None:
    host, lin, own = scene.bot.host, scene.lin, scene.bot.account.user_id
    await lin.say(scene.room, "good evening")
    heard = await host.next_message()
    assert (heard.chat_key, heard.to_bot) == (key_of(scene.room), False)
    assert (heard.sender.user_id, heard.sender.role) == (lin.user_id, Role.OWNER)
    assert heard.sender.name == lin.user_id[1:].partition(":")[0].capitalize()

    await lin.say(scene.room, f"{own}: hello", **{"m.mentions": {"user_ids": [own]}})
    heard = await host.next_message()
    assert heard.segments == (Mention(own), Text(" hello"))
    assert heard.to_bot
    await lin.say(scene.room, "@room look", **{"m.mentions": {"room": True}})
    heard = await host.next_message()
    assert heard.segments == (Mention(EVERYONE), Text("look"))
    assert not heard.to_bot
    notice = {"msgtype": "m.notice", "body": "beep", "m.mentions": {"user_ids": [own]}}
    await lin.send(scene.room, notice)
    assert not (await host.next_message()).to_bot, "the bot does not answer messages of programs"


async def test_a_reply_to_the_bot_is_for_the_bot(scene: Scene) -> None:
    sent = await scene.bot.send(scene.room, "the weather is fine")
    relation = {"m.relates_to": {"m.in_reply_to": {"event_id": sent.message_id}}}
    quotation = f"> <{scene.bot.account.user_id}> the weather is fine\n\nreally?"
    for body in ("really?", quotation):
        await scene.lin.say(scene.room, body, **relation)
        heard = await scene.bot.host.next_message()
        own = scene.bot.account.user_id
        assert heard.segments == (
            Reply(sent.message_id, own, "the weather is fine"),
            Text("really?"),
        )
        assert heard.to_bot


async def test_received_media_are_stored(scene: Scene) -> None:
    """The bot downloads media from the endpoint that needs a token. nonebot-adapter-matrix 0.2.3
    uses the one without a token, which answers 404 on a current Synapse."""
    lin, host = scene.lin, scene.bot.host
    mxc = await lin.upload(png(), "image/png", "dot.png")
    picture = {"msgtype": "m.image", "body": "dot.png", "url": mxc}
    voice = {"msgtype": "m.audio", "body": "v.ogg", "url": mxc, "org.matrix.msc3245.voice": {}}
    captioned = picture | {"filename": "dot.png", "body": "look at this"}
    await lin.send(scene.room, picture)
    await lin.send(scene.room, voice)
    await lin.send(scene.room, captioned)
    await lin.send(scene.room, {"body": "hi", "url": mxc, "info": {}}, "m.sticker")
    await lin.send(scene.room, {"msgtype": "m.file", "body": "no.txt", "url": "mxc://localhost/no"})
    await lin.send(scene.room, {"msgtype": "m.image", "body": "s", "file": {"url": mxc}})
    heard = await host.received(6)
    kept = [message.segments[0] for message in heard]
    assert [type(segment) for segment in kept] == [Image, Voice, Image, Image, File, Image]
    for segment in kept[:4]:
        assert Path(segment.media.path).read_bytes() == png()  # type: ignore[union-attr]
    assert heard[2].segments[1:] == (Text("look at this"),)
    assert isinstance(kept[4], File)
    assert "cannot be fetched" in kept[4].media.problem
    assert isinstance(kept[5], Image)
    assert "encrypted" in kept[5].media.problem
    assert not scene.bot.proxy.of("GET", "/_matrix/media/v3/download")


async def test_text_picture_voice_and_file_are_sent(scene: Scene, tmp_path: Path) -> None:
    picture = medium(tmp_path, "dot.png", png(), "image/png")
    sent = await scene.bot.send(scene.room, Mention(scene.lin.user_id), " look & <see>\nhere")
    assert sent.ok
    assert (await scene.bot.send(scene.room, "a dot", Image(picture))).ok
    assert (await scene.bot.send(scene.room, Reply(sent.message_id), Image(picture))).ok
    voice = medium(tmp_path, "v.ogg", b"OggS" + bytes(100), "audio/ogg")
    assert (await scene.bot.send(scene.room, Voice(voice, "good night"))).ok
    notes = medium(tmp_path, "notes.txt", b"one", "text/plain")
    assert (await scene.bot.send(scene.room, File(notes))).ok

    text, captioned, answering, spoken, file = await scene.said(5)
    name = scene.lin.user_id[1:].partition(":")[0].capitalize()
    assert text["body"] == f"{name} look & <see>\nhere"
    link = f'<a href="https://matrix.to/#/{scene.lin.user_id}">{name}</a>'
    assert text["formatted_body"] == f"{link} look &amp; &lt;see&gt;<br>here"
    assert text["m.mentions"] == {"user_ids": [scene.lin.user_id]}
    assert (captioned["msgtype"], captioned["body"]) == ("m.image", "a dot")
    assert captioned["filename"] == "dot.png"
    assert captioned["info"] == {"mimetype": "image/png", "size": len(png()), "w": 40, "h": 30}
    assert captioned["m.mentions"] == {}
    assert await scene.lin.fetch(captioned["url"]) == png()
    assert answering["m.relates_to"] == {"m.in_reply_to": {"event_id": sent.message_id}}
    assert (spoken["msgtype"], spoken["org.matrix.msc3245.voice"]) == ("m.audio", {})
    assert (file["msgtype"], file["filename"]) == ("m.file", "notes.txt")
    assert await scene.lin.fetch(file["url"]) == b"one"


async def test_a_persons_edit_and_deletion_reach_the_inbox(scene: Scene, server: Synapse) -> None:
    lin, host, key = scene.lin, scene.bot.host, key_of(scene.room)
    said = await lin.say(scene.room, "the rde one")
    change = {
        "body": "* the red one",
        "msgtype": "m.text",
        "m.new_content": {"msgtype": "m.text", "body": "the red one"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": said},
    }
    await lin.send(scene.room, change)
    await host.until(lambda: len(host.revised) == 1)
    assert host.revised == [(key, said, lin.user_id, (Text("the red one"),))]
    assert [message.text for message in host.accepted] == ["the rde one"]
    await lin.redact(scene.room, said)
    await host.until(lambda: len(host.recalled) == 1)
    assert host.recalled == [(key, said)]


async def test_a_thread_is_a_separate_chat(scene: Scene) -> None:
    lin, host = scene.lin, scene.bot.host
    root = await lin.say(scene.room, "shall we talk about trees?")
    relation = {"rel_type": "m.thread", "event_id": root, "is_falling_back": True}
    inside = await lin.say(
        scene.room,
        "oaks first",
        **{"m.relates_to": relation | {"m.in_reply_to": {"event_id": root}}},
    )
    await lin.say(
        scene.room,
        "then elms",
        **{"m.relates_to": relation | {"m.in_reply_to": {"event_id": inside}}},
    )
    first, second, third = await host.received(3)
    assert first.chat_key == key_of(scene.room)
    assert second.chat_key == third.chat_key == key_of(scene.room, thread=root)
    # The first message of a thread has a `Reply` to the thread's root. Later messages have none.
    assert second.segments[0] == Reply(root, lin.user_id, "shall we talk about trees?")
    assert third.segments == (Text("then elms"),)

    assert (await scene.bot.send(scene.room, "I like both", thread=root)).ok
    answered = Reply(inside, lin.user_id, "oaks first")
    assert (await scene.bot.send(scene.room, answered, "oaks!", thread=root)).ok
    fallback, answer = await scene.said(2)
    assert fallback["m.relates_to"] == {
        "rel_type": "m.thread",
        "event_id": root,
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": root},
    }
    assert answer["m.relates_to"] == {
        "rel_type": "m.thread",
        "event_id": root,
        "m.in_reply_to": {"event_id": inside},
    }
    await lin.redact(scene.room, inside)
    await host.until(lambda: bool(host.recalled))
    assert host.recalled == [(key_of(scene.room, thread=root), inside)]


async def test_joins_reactions_and_kicks_become_notices(scene: Scene, server: Synapse) -> None:
    lin, host = scene.lin, scene.bot.host
    (mo,) = await people(server, "mo")
    path = f"/rooms/{scene.room}"
    await lin.call("POST", f"{path}/invite", json={"user_id": mo.user_id})
    await mo.join(scene.room)
    assert (await host.next_message()).notice == Notice("join", mo.user_id, mo.user_id)
    said = await mo.say(scene.room, "hi")
    await host.next_message()
    annotation = {"rel_type": "m.annotation", "event_id": said, "key": "👍"}
    await lin.send(scene.room, {"m.relates_to": annotation}, "m.reaction")
    assert (await host.next_message()).notice == Notice("reaction", lin.user_id, said, "👍")
    await lin.call("POST", f"{path}/kick", json={"user_id": mo.user_id})
    assert (await host.next_message()).notice == Notice("leave", lin.user_id, mo.user_id, "kick")
    await lin.send(scene.room, {"algorithm": "m.megolm.v1", "ciphertext": "x"}, "m.room.encrypted")
    (unread,) = (await host.next_message()).segments
    assert isinstance(unread, Unknown)
    assert unread.kind == "encrypted"


# ---- invitations


async def test_invitations_from_allowed_people_are_accepted(
    tmp_path: Path, server: Synapse, proxy: RecordingProxy
) -> None:
    lin, mo, account = await people(server, "lin", "mo", "bot")
    entry = {"auto_accept_invites": True, "auto_accept_whitelist": [lin.user_id]}
    async with running(tmp_path / "bot", proxy, account, **entry) as bot:
        await bot.connected()
        strange = await mo.make_room(account)
        private = await lin.make_room(account, is_direct=True)
        await bot.proxy.until(lambda: bool(proxy.of("PUT", "account_data/m.direct")))
        await lin.say(private, "just the two of us")
        heard = await bot.host.next_message()
        assert heard.notice is None
        # In a private room every message is for the bot. The room stays private after a restart.
        assert heard.chat_key == key_of(private, private=True)
        assert heard.to_bot
        joined = await mo.call("GET", f"/rooms/{strange}/joined_members")
        assert account.user_id not in joined["joined"]
    async with running(tmp_path / "bot", proxy, account, bot.host, **entry) as again:
        await again.connected()
        await lin.say(private, "still here?")
        assert (await again.host.next_message()).chat_key == key_of(private, private=True)


@pytest.mark.slow
async def test_an_invitation_that_cannot_be_accepted_is_stored_for_the_operator(
    tmp_path: Path, server: Synapse, proxy: RecordingProxy
) -> None:
    lin, account = await people(server, "lin", "bot")
    entry = {"auto_accept_invites": True, "auto_accept_whitelist": [lin.user_id]}
    full = Refusal(403, {"errcode": "M_FORBIDDEN", "error": "the room is full"})
    async with running(tmp_path / "bot", proxy, account, **entry) as bot:
        await bot.connected()
        proxy.rule = lambda _, path: full if "/join/" in path else None
        room = await lin.make_room(account)
        await bot.host.until(lambda: bool(bot.host.requests), limit_s=60)
        assert len(proxy.of("POST", "/join/")) == 4
        (wanted,) = bot.host.requests
        assert (wanted.user_id, wanted.group_id) == (lin.user_id, room)
        proxy.rule = lambda *_: None
        await bot.adapter.answer_request(wanted, approve=True, reason="")
        joined = await lin.call("GET", f"/rooms/{room}/joined_members")
        assert account.user_id in joined["joined"]


async def test_invitations_are_not_accepted_by_default(
    tmp_path: Path, server: Synapse, proxy: RecordingProxy
) -> None:
    lin, account = await people(server, "lin", "bot")
    async with running(tmp_path / "bot", proxy, account) as bot:
        await bot.connected()
        room = await lin.make_room(account)
        before = len(proxy.of("GET", "/sync"))
        await proxy.until(lambda: len(proxy.of("GET", "/sync")) > before)
        joined = await lin.call("GET", f"/rooms/{room}/joined_members")
        assert account.user_id not in joined["joined"]
        assert not proxy.of("POST", "/join/")


async def test_an_operator_accepts_one_invitation_and_refuses_another(
    tmp_path: Path, server: Synapse, proxy: RecordingProxy
) -> None:
    lin, account = await people(server, "lin", "bot")
    async with running(tmp_path / "bot", proxy, account) as bot:
        await bot.connected()
        private = await lin.make_room(account, is_direct=True, name="tea")
        await bot.host.until(lambda: len(bot.host.requests) == 1)
        wanted = bot.host.requests[0]
        assert (wanted.kind, wanted.user_id, wanted.group_id) == (
            "group_invite", lin.user_id, private,
        )  # fmt: skip
        assert (wanted.user_name.casefold()[:3], wanted.text) == ("lin", "tea")
        await bot.adapter.answer_request(wanted, approve=True, reason="")
        await lin.say(private, "welcome")
        heard = [await bot.host.next_message()]
        while heard[-1].notice is not None:
            heard.append(await bot.host.next_message())
        assert heard[-1].chat_key == key_of(private, private=True)

        unwanted = await lin.make_room(account)
        await bot.host.until(lambda: len(bot.host.requests) == 2)
        await bot.adapter.answer_request(bot.host.requests[1], approve=False, reason="no time")
        state = await lin.call("GET", f"/rooms/{unwanted}/state/m.room.member/{account.user_id}")
        assert (state["membership"], state["reason"]) == ("leave", "no time")
        with pytest.raises(CannotDo, match=account.user_id):
            await bot.adapter.answer_request(bot.host.requests[1], approve=True, reason="")

        await lin.call("POST", f"/rooms/{unwanted}/invite", json={"user_id": account.user_id})
        await bot.host.until(lambda: len(bot.host.requests) == 3)
        assert bot.host.requests[2].request_id != bot.host.requests[1].request_id


async def test_an_operator_lets_in_one_person_who_knocks_and_refuses_another(
    tmp_path: Path, server: Synapse, proxy: RecordingProxy
) -> None:
    lin, mo, account = await people(server, "lin", "mo", "bot")
    rule = {"type": "m.room.join_rules", "content": {"join_rule": "knock"}, "state_key": ""}
    room = await account.make_room(initial_state=[rule])
    async with running(tmp_path / "bot", proxy, account) as bot:
        await bot.connected()
        await lin.call("POST", f"/knock/{room}", json={"reason": "I bring cake"})
        await mo.call("POST", f"/knock/{room}", json={})
        await bot.host.until(lambda: len(bot.host.requests) == 2)
        first, second = bot.host.requests
        assert (first.kind, first.user_id, first.text) == (
            "group_join", lin.user_id, "I bring cake",
        )  # fmt: skip
        await bot.adapter.answer_request(first, approve=True, reason="")
        await bot.adapter.answer_request(second, approve=False, reason="full")
        await lin.join(room)
        joined = await lin.call("GET", f"/rooms/{room}/joined_members")
        assert set(joined["joined"]) == {lin.user_id, account.user_id}


async def test_two_of_the_bots_accounts_in_one_room_have_separate_chats(
    tmp_path: Path, server: Synapse, proxy: RecordingProxy
) -> None:
    lin, one, two = await people(server, "lin", "bot", "second")
    room = await lin.make_room(one, two)
    await one.join(room)
    await two.join(room)
    async with running(tmp_path / "bot", proxy, one, others=(two,)) as bot:
        await bot.connected()
        await lin.say(room, "hello both")
        heard = await bot.host.received(2)
        assert {each.account for each in heard} == {one.user_id, two.user_id}
        assert len({each.chat_key for each in heard}) == 2
        by = {each.account: each.chat_key for each in heard}
        own = await bot.adapter.own_accounts(by[one.user_id])
        assert own == {one.user_id, two.user_id}, "a message of one account must not wake the other"
        receipt = await bot.adapter.send(delivery(by[two.user_id], Text("it is me, the second")))
        assert receipt.ok
        (said,) = await lin.until_said(room, 1, of=two.user_id)
        assert said["content"]["body"] == "it is me, the second"
        echo = (await bot.host.received(3))[-1]
        assert (echo.account, echo.sender.user_id) == (one.user_id, two.user_id)


# ---- outages and restarts


async def test_a_message_is_not_treated_as_history_only_because_its_time_stamp_is_old(
    scene: Scene,
) -> None:
    """A server's clock may be an hour slow, and people there must still get an answer. A message
    with an equally old time stamp that arrives after an outage counts as history."""
    hour_ms = 3_600_000

    def aged(answer: Any) -> Any:
        for room in answer.get("rooms", {}).get("join", {}).values():
            for event in room["timeline"]["events"]:
                event.setdefault("unsigned", {})["age"] = hour_ms
        return answer

    proxy, host = scene.bot.proxy, scene.bot.host
    proxy.change = lambda path, answer: aged(answer) if "/sync" in path else answer
    await scene.lin.say(scene.room, "by a slow clock")
    assert not (await host.next_message()).from_history
    await proxy.go_away()
    await scene.lin.say(scene.room, "while you were away")
    await proxy.come_back()
    assert (await host.next_message()).from_history


async def test_messages_sent_during_an_outage_are_received_once_and_in_order(scene: Scene) -> None:
    lin, host = scene.lin, scene.bot.host
    await lin.say(scene.room, "before")
    await host.received(1)
    await scene.bot.proxy.go_away()
    for number in range(5):
        await lin.say(scene.room, f"meanwhile {number}")
    receipt = await scene.bot.send(scene.room, "can you hear me?")
    assert receipt.state is DeliveryState.PENDING
    await scene.bot.proxy.come_back()
    await lin.say(scene.room, "after")
    heard = await host.received(7)
    wanted = ["before", *(f"meanwhile {number}" for number in range(5)), "after"]
    assert [message.text for message in heard] == wanted
    assert (await scene.bot.send(scene.room, "now?")).ok


async def test_a_gap_longer_than_one_sync_is_filled_after_a_restart(
    tmp_path: Path, server: Synapse, proxy: RecordingProxy
) -> None:
    lin, account = await people(server, "lin", "bot")
    room = await lin.make_room(account)
    await account.join(room)
    folder = tmp_path / "bot"
    folder.mkdir()
    host = MemoryHost(folder)
    await lin.say(room, "from before the bot's time")
    async with running(folder, proxy, account, host) as bot:
        await bot.connected()
        await lin.say(room, "one")
        await host.received(1)
    for number in range(70):
        await lin.say(room, f"missed {number}")
    async with running(folder, proxy, account, host) as bot:
        await bot.connected()
        await lin.say(room, "two")
        await host.until(lambda: host.accepted[-1].text == "two", 30)
    texts = [message.text for message in host.accepted]
    # A message may arrive twice. In a real bot, the inbox ignores a message with a known id.
    once = list(dict.fromkeys(texts))
    assert once == ["one", *(f"missed {number}" for number in range(70)), "two"]
    ids = [message.message_id for message in host.accepted]
    assert len(set(ids)) == len(once)


async def test_if_the_server_refuses_to_fill_a_gap_later_messages_are_received(
    tmp_path: Path, server: Synapse, proxy: RecordingProxy
) -> None:
    lin, account = await people(server, "lin", "bot")
    room = await lin.make_room(account)
    await account.join(room)
    host = MemoryHost(tmp_path)
    async with running(tmp_path, proxy, account, host) as bot:
        await bot.connected()
    for number in range(60):
        await lin.say(room, f"missed {number}")
    no = Refusal(403, {"errcode": "M_FORBIDDEN", "error": "no history for you"})
    proxy.rule = lambda _, path: no if "/messages" in path else None
    async with running(tmp_path, proxy, account, host) as bot:
        await bot.connected()
        await host.until(lambda: bool(host.accepted) and host.accepted[-1].text == "missed 59")
        await lin.say(room, "after")
        await host.until(lambda: host.accepted[-1].text == "after")
    assert len({each.message_id for each in host.accepted}) == 51


async def test_a_message_that_cannot_be_stored_is_read_again(
    tmp_path: Path, server: Synapse, proxy: RecordingProxy
) -> None:
    lin, account = await people(server, "lin", "bot")
    room = await lin.make_room(account)
    await account.join(room)
    host = MemoryHost(tmp_path)
    async with running(tmp_path, proxy, account, host, hand_over=_without_patience) as bot:
        await bot.connected()
        await lin.say(room, "one")
        await host.received(1)
        host.failures = 2
        await lin.say(room, "two")
        await lin.say(room, "three")
        # The messages after the failed one may arrive twice. In a real bot, the inbox ignores a
        # message with a known id.
        await host.until(lambda: [each.text for each in host.accepted][-2:] == ["two", "three"])


async def _without_patience(accept: Accept, message: ChatMessage) -> None:
    await accept(message)


# ---- the outcome of a send


async def test_a_message_whose_outcome_is_unknown_is_found_by_its_delivery_id(scene: Scene) -> None:
    key = key_of(scene.room)
    bot, proxy = scene.bot, scene.bot.proxy
    lost, never = delivery(key, Text("is it there?")), delivery(key, Text("is it there?"))
    bot.adapter._send_s = 0.5
    proxy.rule = lambda _, path: Silence(done=True) if "/send/" in path else None
    assert (await bot.adapter.send(lost)).state is DeliveryState.UNKNOWN
    proxy.rule = lambda _, path: Silence() if "/send/" in path else None
    assert (await bot.adapter.send(never)).state is DeliveryState.UNKNOWN
    proxy.rule = lambda *_: None
    now = bot.adapter._accounts[0]._clock()

    def strange(path: str, answer: Any) -> Any:
        """Put what is no event, and events without a usable time, before the server's events."""
        if "/messages" in path:
            odd = [None, 7, {"origin_server_ts": "now"}, {"origin_server_ts": None, "content": 1}]
            answer["chunk"] = [*odd, *answer["chunk"]]
        return answer

    proxy.change = strange
    found = await bot.adapter.confirm(UncertainDelivery(delivery=lost, since=now))
    assert found.state is DeliveryState.SENT
    gone = await bot.adapter.confirm(UncertainDelivery(delivery=never, since=now))
    assert gone.state is DeliveryState.REJECTED
    proxy.change = lambda path, answer: {"chunk": {"a": 1}} if "/messages" in path else answer
    gone = await bot.adapter.confirm(UncertainDelivery(delivery=never, since=now))
    assert gone.state is DeliveryState.REJECTED
    proxy.change = None
    # A second send with the same delivery id makes the same event, so people see it once.
    bot.adapter._send_s = 10
    assert (await bot.adapter.send(lost)).message_id == found.message_id
    assert (await bot.adapter.send(never)).ok
    assert [content["body"] for content in await scene.said(2)] == ["is it there?"] * 2


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        (Refusal(403, {"errcode": "M_FORBIDDEN", "error": "muted"}), "rejected", "muted"),
        (Refusal(413, {"errcode": "M_TOO_LARGE", "error": "too large"}), "rejected", "too large"),
        (Refusal(401, {"errcode": "M_UNKNOWN_TOKEN", "error": "logged out"}), "pending", "logged"),
        (Refusal(429, {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 60_000}), "pending", "60"),
        (Refusal(502, "no"), "unknown", "502"),
        (Refusal(200, "what?"), "sent", ""),
    ],
)
async def test_the_servers_answer_decides_the_state_of_a_send(
    scene: Scene, answer: Refusal, state: str, words: str
) -> None:
    scene.bot.proxy.rule = lambda _, path: answer if "/send/" in path else None
    receipt = await scene.bot.send(scene.room, "hello")
    assert (receipt.state, words in receipt.reason) == (state, True)
    # A refusal concerns only this message. The account stays connected.
    scene.bot.proxy.rule = lambda *_: None
    assert (await scene.bot.send(scene.room, "and now?")).ok


async def test_a_send_waits_until_a_short_rate_limit_ends(scene: Scene) -> None:
    busy = Refusal(429, {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 100})
    answers = [busy, busy]
    scene.bot.proxy.rule = lambda _, path: answers.pop() if answers and "/send/" in path else None
    assert (await scene.bot.send(scene.room, "hello")).ok
    assert [content["body"] for content in await scene.said(1)] == ["hello"]


async def test_if_an_upload_fails_no_message_is_sent(scene: Scene, tmp_path: Path) -> None:
    picture = Image(medium(tmp_path, "dot.png", png(), "image/png"))
    no = Refusal(403, {"errcode": "M_FORBIDDEN", "error": "no uploads"})
    scene.bot.proxy.rule = lambda _, path: no if "/upload" in path else None
    receipt = await scene.bot.send(scene.room, picture)
    assert (receipt.state, "no uploads" in receipt.reason) == (DeliveryState.REJECTED, True)
    scene.bot.proxy.rule = lambda _, path: Refusal(502, "") if "/upload" in path else None
    assert (await scene.bot.send(scene.room, picture)).state is DeliveryState.PENDING


async def test_the_adapter_logs_in_again_when_its_token_expires(
    tmp_path: Path, server: Synapse, proxy: RecordingProxy
) -> None:
    lin, account = await people(server, "lin", "bot")
    room = await lin.make_room(account)
    await account.join(room)
    entry = {"login_user": account.user_id, "login_password": "a password for tests"}
    async with running(tmp_path / "bot", proxy, account, **entry) as bot:
        await bot.connected()
        await account.call("POST", "/logout", json={})
        await proxy.until(lambda: bool(proxy.of("POST", "/login")), 30)
        await lin.say(room, "are you back?")
        assert (await bot.host.next_message()).text == "are you back?"
        assert (await bot.send(room, "yes")).ok
    assert (tmp_path / "bot" / "matrix" / "tokens.json").exists()


async def test_people_see_that_the_bot_is_typing_until_the_typing_ends(scene: Scene) -> None:
    bot, lin, key = scene.bot, scene.lin, key_of(scene.room)
    assert bot.adapter.capabilities(key).typing_s == 20

    since = (await lin.call("GET", "/sync", params={"timeout": 0}))["next_batch"]

    async def typists() -> list[str]:
        """The people who are typing in the room, as Lin's client is told when that changes."""
        nonlocal since
        while True:
            params = {"timeout": 10_000, "since": since}
            sync = await lin.call("GET", "/sync", params=params)
            since = sync["next_batch"]
            room = sync.get("rooms", {}).get("join", {}).get(scene.room, {})
            for event in room.get("ephemeral", {}).get("events", ()):
                if event["type"] == "m.typing":
                    return event["content"]["user_ids"]

    with anyio.fail_after(30):
        await bot.adapter.show_typing(key, typing=True)
        assert await typists() == [bot.account.user_id]
        await bot.adapter.show_typing(key, typing=False)
        assert await typists() == []


async def test_a_message_gets_the_bots_reaction_once(scene: Scene) -> None:
    bot, lin, key = scene.bot, scene.lin, key_of(scene.room)
    said = await lin.say(scene.room, "hello")
    for _ in range(2):
        await bot.adapter.react(key, said, "👀")
    await bot.adapter.react(key, said, "👍")
    page = await lin.call("GET", f"/rooms/{quote(scene.room)}/messages", params={"dir": "b"})
    found = [each["content"] for each in page["chunk"] if each["type"] == "m.reaction"]
    assert [each["m.relates_to"] for each in found[::-1]] == [
        {"rel_type": "m.annotation", "event_id": said, "key": emoji} for emoji in ("👀", "👍")
    ]


async def test_typing_and_a_reaction_are_refused_in_a_room_that_the_bot_is_not_in(
    scene: Scene, server: Synapse
) -> None:
    (stranger,) = await people(server, "stranger")
    key = key_of(await stranger.make_room())
    with pytest.raises(SignRefused):
        await scene.bot.adapter.show_typing(key, typing=True)
    with pytest.raises(SignRefused):
        await scene.bot.adapter.react(key, "$event", "👀")
