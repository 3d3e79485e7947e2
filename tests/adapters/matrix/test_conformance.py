"""The Matrix adapter passes the adapter contract against a real homeserver."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nekro_core.api.chat import ChatMessage
from nekro_core.testing.adapter_contract import AdapterContract, adapter_manifest
from tests.adapters.matrix.running import Bot, key_of, people, running
from tests.peers.recording_proxy import RecordingProxy, Refusal, Silence
from tests.peers.synapse import Person, Synapse

pytestmark = pytest.mark.long

SILENCE_S = 1.0
"""The adapter's timeout, in seconds, for a send that gets no answer. Other sends have a much longer
timeout."""


class Harness:
    """A running adapter in a room with one person."""

    def __init__(self, bot: Bot, person: Person, room: str) -> None:
        self.adapter = bot.adapter
        self.chat_key = key_of(room)
        self._bot = bot
        self._person = person
        self._room = room

    async def say(self, text: str, *, user: str = "", message_id: str = "") -> str:
        return await self._person.say(self._room, text)

    async def received(self, count: int) -> list[ChatMessage]:
        return await self._bot.host.received(count)

    async def shown(self, count: int) -> list[str]:
        """Return the texts that a client shows. An edited message has the text of its newest
        edit."""
        own = self._bot.account.user_id
        said = await self._person.until_said(self._room, count, of=own)
        changes = {
            event["content"]["m.relates_to"]["event_id"]: event["content"]["m.new_content"]
            for event in await self._person.timeline(self._room, of=own)
            if "m.new_content" in event["content"]
        }
        return [changes.get(event["event_id"], event["content"])["body"] for event in said]

    async def refuse_sends(self) -> None:
        no = Refusal(403, {"errcode": "M_FORBIDDEN", "error": "you are muted here"})
        self._bot.proxy.rule = lambda method, path: no if "/send/" in path else None

    async def go_silent(self) -> None:
        self._bot.adapter._send_s = SILENCE_S
        self._bot.proxy.rule = lambda method, path: Silence(done=True) if "/send/" in path else None

    async def disconnect(self) -> None:
        await self._bot.proxy.go_away()


class TestMatrix(AdapterContract):
    manifest = adapter_manifest(Path("adapters/matrix"))

    @pytest.fixture
    async def harness(
        self, tmp_path: Path, server: Synapse, proxy: RecordingProxy
    ) -> AsyncIterator[Harness]:
        lin, account = await people(server, "lin", "bot")
        room = await lin.make_room(account)
        await account.join(room)
        async with running(tmp_path, proxy, account, api_timeout=30.0) as bot:
            await bot.connected()
            yield Harness(bot, lin, room)
