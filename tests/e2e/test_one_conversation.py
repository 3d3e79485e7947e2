"""A person and the bot have the same conversation on every platform. They exchange a text with a
mention and a reply, a picture, a voice, a file and a long text, each in both directions, from the
platform's wire to a box and back."""

import hashlib
import io
import json
import sqlite3
import wave
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.stages import Medium, Opener, Stage
from tests.e2e.stages.matrix import matrix
from tests.e2e.stages.onebot_v11 import onebot_v11
from tests.e2e.stages.satori import satori
from tests.e2e.stages.script import (
    GREETING,
    HEARD,
    LONG,
    LONG_IN,
    NOTES,
    PICTURE,
    THERE,
    model,
)
from tests.e2e.stages.telegram import telegram
from tests.e2e.stages.web import web
from tests.e2e.stages.wire_page import check_page
from tests.e2e.whole_bot import until
from tests.peers.scripted_model import ScriptedModelServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

STAGES: dict[str, Opener] = {
    "onebot_v11": onebot_v11,
    "matrix": matrix,
    "satori": satori,
    "telegram": telegram,
    "web": web,
}


def _wav() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as voice:
        voice.setparams((1, 2, 16000, 8000, "NONE", ""))
        voice.writeframes(b"".join(i.to_bytes(2, "little") for i in range(8000)))
    return buffer.getvalue()


def _photo() -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").save(buffer, "JPEG")
    return buffer.getvalue()


HANDED_OVER = {
    "image": Medium("picture", "cat.jpg", _photo()),
    "voice": Medium("voice", "hello.wav", _wav()),
    "file": Medium("file", "list.txt", b"bread\nmilk\n"),
}
LONG_SAID = f"I have {LONG_IN}: " + " ".join(f"thing-{number}" for number in range(300))


@dataclass
class BotOnStage:
    """A stage and the bot on it."""

    stage: Stage
    bot: BotProcess

    async def heard(self, message_id: str) -> list[dict[str, Any]]:
        """The segments of a person's message, as the bot has stored them."""
        await until(lambda: bool(self._rows(message_id)))
        ((segments,),) = self._rows(message_id)
        found: list[dict[str, Any]] = json.loads(segments)
        return found

    def _rows(self, message_id: str) -> list[tuple[str]]:
        path = self.bot.data / "nekro.sqlite3"
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return connection.execute(
                "SELECT segments FROM messages WHERE chat_key = ? AND message_id = ?",
                (self.stage.chat_key, message_id),
            ).fetchall()
        finally:
            connection.close()


@pytest.fixture(params=STAGES)
async def on_stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BotOnStage]:
    async with STAGES[request.param](tmp_path) as stage, ScriptedModelServer(model) as server:
        settings = {
            "NEKRO_LLM__BASE_URL": server.base_url,
            "NEKRO_LLM__MODEL": "scripted",
            "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
            # In the default mode, a picture that a person sends soon after the bot's answer would
            # wake the bot too.
            "NEKRO_TRIGGER__PARTICIPATION__MODE": "mentioned",
            **stage.settings,
        }
        async with running_bot(tmp_path, **settings) as bot, stage.join(bot):
            yield BotOnStage(stage, bot)


async def test_one_conversation(on_stage: BotOnStage) -> None:
    stage = on_stage.stage

    # A person mentions the bot. The bot replies to this message and mentions the person.
    said = await stage.say(GREETING, mention=True)
    (greeting,) = await stage.seen(1)
    assert greeting.text.strip() == "Good evening!"
    assert greeting.mentions == (stage.person_id,)
    assert greeting.reply_to == said
    heard = await on_stage.heard(said)
    assert [part["user_id"] for part in heard if part["type"] == "mention"] == [stage.bot_id]
    assert _words(heard) == GREETING

    # The person replies to the bot's message. The reply wakes the bot as a mention does.
    if "reply" not in stage.cannot:
        said = await stage.say("did you hear me?", reply_to=greeting.message_id)
        assert (await stage.seen(2))[1].text == HEARD
        heard = await on_stage.heard(said)
        (reply,) = [part for part in heard if part["type"] == "reply"]
        assert (reply["message_id"], reply["sender_id"]) == (greeting.message_id, stage.bot_id)
        assert "Good evening!" in reply["text"]
        assert _words(heard) == "did you hear me?"
    so_far = len(await stage.seen(1))

    # The person sends a picture, a voice and a file. Code in a box reads the same bytes.
    wanted = {}
    for kind, medium in HANDED_OVER.items():
        if medium.kind not in stage.cannot:
            said = await stage.hand_over(medium)
            (part,) = [part for part in await on_stage.heard(said) if part["type"] == kind]
            assert not part["media"].get("problem")
            wanted[kind] = f"{kind} {hashlib.sha256(medium.data).hexdigest()}"
    await stage.say(THERE, mention=True)
    told = (await stage.seen(so_far + len(wanted)))[so_far:]
    assert [message.text for message in told] == list(wanted.values())
    so_far += len(wanted)

    # The bot sends a picture, a voice and a file.
    await stage.say("show me", mention=True)
    shown = (await stage.seen(so_far + 3))[so_far:]
    picture, voice, file = [medium for message in shown for medium in message.media]
    assert picture.kind == "picture"
    assert _pixel(picture.data) == _pixel(PICTURE)
    assert voice.kind == "voice"
    assert len(voice.data) > 2000
    assert (file.kind, file.name, file.data.decode()) == ("file", "notes.txt", NOTES)
    so_far += 3

    # The person and the bot send long texts. A text that does not fit is sent in pieces, and no
    # part is lost.
    said = await stage.say(LONG_SAID, mention=True)
    pieces = await _until_whole(stage, so_far)
    assert " ".join(" ".join(pieces).split()) == " ".join(LONG.split())
    assert _words(await on_stage.heard(said)) == LONG_SAID

    check_page(stage)


async def _until_whole(stage: Stage, before: int) -> list[str]:
    """Wait for the last words of the long text. Return the pieces of the text."""
    count = before + 1
    while True:
        pieces = [message.text for message in (await stage.seen(count))[before:]]
        if pieces[-1].endswith(LONG[-20:]):
            return pieces
        count = before + len(pieces) + 1


def _words(segments: list[dict[str, Any]]) -> str:
    return "".join(part["text"] for part in segments if part["type"] == "text").strip()


def _pixel(data: bytes) -> tuple[int, ...]:
    """The colour in the middle, in coarse steps, because a platform may re-encode the picture."""
    with Image.open(io.BytesIO(data)) as picture:
        colour = picture.convert("RGB").getpixel((picture.width // 2, picture.height // 2))
    assert isinstance(colour, tuple)
    return tuple(part // 16 for part in colour)
