"""People talk in the web chat, and their messages reach the bot unchanged."""

import base64

import anyio
import pytest

from nekro_core.api.chat import (
    Author,
    ChatKey,
    ChatKind,
    DeliveryState,
    Image,
    Mention,
    Reply,
    Text,
)
from tests.adapters.web.fake_host import card, tone
from tests.adapters.web.running import EventReader, Web, until

LOBBY = ChatKey("web", ChatKind.GROUP, "lobby")


def bot_says(chat: Web, text: str, message_id: str = "b1"):
    return chat.host.add(
        LOBBY, Author.BOT, (Text(text),), time=chat.clock(), message_id=message_id, run_id="r1"
    )


async def test_messages_between_people_in_a_group_are_not_for_the_bot(chat: Web) -> None:
    await chat.say("good morning", speaker="lin")
    await chat.say("morning @lin!", speaker="mika")
    first, second = chat.host.accepted
    assert (str(first.chat_key), first.sender.user_id) == ("web-group_lobby", "lin")
    assert second.segments == (Text("morning "), Mention("lin", "lin"), Text("!"))
    assert not first.to_bot
    assert not second.to_bot


async def test_the_bots_name_after_an_at_sign_is_a_mention(chat: Web) -> None:
    for text in ("@Nekro hi", "hi @nekro", "@bot hi", "你好@Nekro你好"):
        await chat.say(text)
    assert all(message.to_bot for message in chat.host.accepted)
    assert chat.host.accepted[0].segments == (Mention("bot", "Nekro"), Text("hi"))


async def test_an_email_address_is_not_a_mention(chat: Web) -> None:
    await chat.say("write to me@nekro.example or @nekrosis")
    (heard,) = chat.host.accepted
    assert heard.segments == (Text("write to me@nekro.example or @nekrosis"),)
    assert not heard.to_bot


async def test_a_message_marked_for_the_bot_begins_with_one_mention_of_the_bot(chat: Web) -> None:
    await chat.say("roll a dice", to_bot=True)
    await chat.say("@Nekro roll a dice", to_bot=True)
    first, second = chat.host.accepted
    assert first.segments == (Mention("bot", "Nekro"), Text("roll a dice"))
    assert second.segments == first.segments


async def test_a_reply_to_the_bot_is_for_the_bot(chat: Web) -> None:
    bot_says(chat, "shall I go on?", "b1")
    await chat.say("yes", reply_to="b1")
    (heard,) = chat.host.accepted
    assert heard.segments == (Reply("b1", "bot", "shall I go on?"), Text("yes"))
    assert heard.to_bot


async def test_a_private_room_needs_no_mention_and_has_one_speaker(chat: Web) -> None:
    await chat.say("hello", room="private_lin", speaker="lin")
    (heard,) = chat.host.accepted
    assert str(heard.chat_key) == "web-private_lin"
    assert heard.to_bot
    answer = await chat.post("private_lin", {"speaker": "mika", "text": "hello"})
    assert answer.status_code == 422
    assert "'lin'" in answer.json()["error"]["message"]


async def test_an_uploaded_picture_can_be_downloaded(chat: Web) -> None:
    picture = card()
    sent = await chat.say(
        "look", attachments=[{"name": "cat.png", "data": base64.b64encode(picture).decode()}]
    )
    assert [part["type"] for part in sent["segments"]] == ["text", "image"]
    assert isinstance(chat.host.accepted[0].segments[1], Image)
    answer = await chat.client.get(sent["segments"][1]["url"])
    assert answer.content == picture
    assert answer.headers["content-type"] == "image/png"


async def test_files_can_be_uploaded_as_a_form(chat: Web) -> None:
    answer = await chat.client.post(
        "/api/v1/rooms/lobby/messages",
        data={"message": '{"speaker": "lin", "text": "both"}'},
        files=[("files", ("v.wav", tone(0.1))), ("files", ("../../a.csv", b"1,2"))],
    )
    assert answer.status_code == 200, answer.text
    parts = answer.json()["segments"]
    assert [(part["type"], part.get("name")) for part in parts] == [
        ("text", None),
        ("voice", "v.wav"),
        ("file", "a.csv"),
    ]


async def test_a_part_of_a_voice_message_can_be_downloaded(chat: Web) -> None:
    wav = tone(0.2)
    sent = await chat.say("", attachments=[{"data": base64.b64encode(wav).decode()}])
    url = sent["segments"][0]["url"]
    part = await chat.client.get(url, headers={"Range": "bytes=100-199"})
    assert part.status_code == 206
    assert part.content == wav[100:200]
    assert part.headers["content-range"] == f"bytes 100-199/{len(wav)}"
    assert (await chat.client.get(url, headers={"Range": "bytes=-10"})).content == wav[-10:]
    beyond = await chat.client.get(url, headers={"Range": f"bytes={len(wav)}-"})
    assert beyond.status_code == 416


async def test_a_message_that_is_posted_twice_with_the_same_key_is_stored_once(chat: Web) -> None:
    body = {"speaker": "lin", "text": "once", "to_bot": True}
    key = {"Idempotency-Key": "job-7"}
    first = await chat.post("lobby", body, **key)
    again = await chat.post("lobby", body, **key)
    assert first.json() == again.json()
    assert len(chat.host.accepted) == 1
    other = await chat.post("lobby", {**body, "text": "twice"}, **key)
    assert other.status_code == 422
    assert other.json()["error"]["code"] == "idempotency_key"
    elsewhere = await chat.post("cellar", body, **key)
    assert elsewhere.status_code == 200
    assert len(chat.host.accepted) == 2


async def test_the_history_is_read_page_by_page(chat: Web) -> None:
    for number in range(5):
        await chat.say(f"line {number}")
    await chat.say("elsewhere", room="cellar")
    newest = (await chat.client.get("/api/v1/rooms/lobby/messages?limit=2")).json()
    assert [line["segments"][0]["text"] for line in newest["messages"]] == ["line 3", "line 4"]
    after = newest["messages"][0]["seq"]
    rest = (await chat.client.get(f"/api/v1/rooms/lobby/messages?after={after}")).json()
    assert [line["segments"][0]["text"] for line in rest["messages"]] == ["line 4"]
    rooms = (await chat.client.get("/api/v1/rooms")).json()
    assert [room["room"] for room in rooms["rooms"]] == ["group_cellar", "group_lobby"]
    assert rooms["bot"] == {"id": "bot", "name": "Nekro"}


async def test_a_stream_continues_after_the_last_seen_event(chat: Web) -> None:
    address = "/api/v1/rooms/lobby/events"
    async with chat.client.stream("GET", address) as answer:
        events = EventReader(answer)
        assert await events.next() == ("", "working", {"busy": False})
        await chat.say("one")
        last, name, data = await events.next()
        assert (name, data["segments"][0]["text"]) == ("message", "one")
    await chat.say("two")
    await chat.say("other room", room="cellar")
    await chat.say("three")
    async with chat.client.stream("GET", address, headers={"Last-Event-ID": last}) as answer:
        events = EventReader(answer)
        texts = [(await events.next())[2]["segments"][0]["text"] for _ in range(2)]
        assert texts == ["two", "three"]
        assert (await events.next())[1] == "working"
        await chat.say("four")
        assert (await events.next())[2]["segments"][0]["text"] == "four"


async def test_a_stream_shows_the_new_state_of_a_message_that_has_no_platform_id(chat: Web) -> None:
    record = bot_says(chat, "on its way", "")
    async with chat.client.stream("GET", "/api/v1/rooms/lobby/events?after=0") as answer:
        events = EventReader(answer)
        assert (await events.next())[:2] == (str(record.seq), "message")
        await events.next()
        chat.host.change(record, state=DeliveryState.UNKNOWN)
        event_id, name, data = await events.next()
        assert (event_id, name, data["state"]) == ("", "changed", "unknown")


async def test_a_stream_shows_each_edit_of_a_message(chat: Web) -> None:
    record = bot_says(chat, "1 of 3", "b1")
    async with chat.client.stream("GET", "/api/v1/rooms/lobby/events?after=0") as answer:
        events = EventReader(answer)
        assert (await events.next())[:2] == (str(record.seq), "message")
        await events.next()
        for text in ("2 of 3", "3 of 3"):
            chat.host.change(record, segments=(Text(text),))
            _, name, data = await events.next()
            assert (name, data["seq"]) == ("changed", record.seq)
            assert data["segments"] == [{"type": "text", "text": text}]


async def test_a_stream_shows_that_the_bot_works_and_the_bot_can_be_stopped(chat: Web) -> None:
    async with chat.client.stream("GET", "/api/v1/rooms/lobby/events") as answer:
        events = EventReader(answer)
        await events.next()
        assert (await chat.client.post("/api/v1/rooms/lobby/stop")).json() == {"stopped": False}
        async with chat.host.turn(LOBBY):
            assert await events.next() == ("", "working", {"busy": True})
            stopped = await chat.client.post("/api/v1/rooms/lobby/stop")
            assert stopped.json() == {"stopped": True}
        assert await events.next() == ("", "working", {"busy": False})


async def test_streams_end_when_the_adapter_closes(chat: Web) -> None:
    async with chat.client.stream("GET", "/api/v1/rooms/lobby/events") as answer:
        events = EventReader(answer)
        await events.next()
        await chat.adapter.aclose()
        with pytest.raises(EOFError):
            await events.next()
    await until(lambda: not chat.host.watchers)


async def test_a_recalled_message_and_its_media_are_no_longer_shown(chat: Web) -> None:
    sent = await chat.say(
        "secret", attachments=[{"name": "a.png", "data": base64.b64encode(card()).decode()}]
    )
    await chat.host.recall(LOBBY, sent["message_id"])
    history = (await chat.client.get("/api/v1/rooms/lobby/messages")).json()["messages"]
    assert [(line["recalled"], line["segments"]) for line in history] == [(True, [])]
    assert (await chat.client.get(sent["segments"][1]["url"])).status_code == 404


async def test_a_text_waits_for_an_earlier_message_with_a_slow_picture(chat: Web) -> None:
    picture = base64.b64encode(card()).decode()
    async with anyio.create_task_group() as tasks:
        with chat.host.media.slowly(0.3):
            tasks.start_soon(
                lambda: chat.say("first", attachments=[{"name": "a.png", "data": picture}])
            )
            await chat.host.media.begun.wait()
            await chat.say("second")
    assert [message.text for message in chat.host.accepted] == ["first[image]", "second"]
