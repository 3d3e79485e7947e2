"""A bot in memory behind the web adapter, with scripted answers. People can also use it by hand
(see `serve.py`).

`ScriptedMind` decides the answers. In all other things the bot behaves as `Host` and `OperatorHost`
promise. For example, it keeps the order of messages, drops duplicates, and gives an upload only to
its chat.
"""

import hashlib
import io
import itertools
import math
import struct
import wave
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup
from PIL import Image as Picture
from PIL import ImageDraw

from nekro_core.api.adapter import (
    Activity,
    Adapter,
    ContactRequest,
    OperatorHost,
    Recorded,
    Working,
)
from nekro_core.api.chat import (
    Author,
    ChatKey,
    ChatMessage,
    Delivery,
    DeliveryState,
    File,
    Image,
    Media,
    Record,
    Reply,
    RunRecord,
    Segments,
    Sender,
    Text,
    Voice,
)
from nekro_core.plugins.web.pages import PluginPages
from nekro_core.plugins.web.webhooks import Webhooks

VOICE_S = 2.0
SIGNATURES = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "audio/wav",
    b"<!do": "text/html",
    b"<htm": "text/html",
    b"<svg": "image/svg+xml",
}


class MemoryKeeper:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.delay_s = 0.0
        self.begun = anyio.Event()
        """This event is set when the storing of the first file begins."""

    @contextmanager
    def slowly(self, seconds: float) -> Iterator[None]:
        """Inside this context, storing a file takes this many seconds."""
        self.delay_s = seconds
        yield
        self.delay_s = 0.0

    async def keep_bytes(self, chat_key: ChatKey, data: bytes, *, name: str = "") -> Media:
        self.begun.set()
        await anyio.sleep(self.delay_s)
        if not data:
            return Media(name=name, problem="the file is empty")
        digest = hashlib.sha256(data).hexdigest()
        path = self.folder / chat_key.file_name / digest
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        mime = next(
            (m for start, m in SIGNATURES.items() if data.startswith(start)),
            "application/octet-stream",
        )
        return Media(path=str(path), name=name, mime=mime, size=len(data), sha256=digest)

    async def keep_url(self, chat_key: ChatKey, url: str, *, name: str = "") -> Media:
        return Media(url=url, name=name, problem="this host fetches nothing")


@dataclass
class FakeHost:
    data_dir: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    outbox: Any = None
    site: Any = None

    def __post_init__(self) -> None:
        self.media = MemoryKeeper(self.data_dir / "uploads")
        self.pages = PluginPages()
        self.webhooks = Webhooks(lambda: "a secret that only a test knows")
        self.history: dict[ChatKey, list[Record]] = defaultdict(list)
        self.code: dict[str, list[RunRecord]] = {}
        self.accepted: list[ChatMessage] = []
        self.mind: ScriptedMind | None = None
        self.turns: dict[ChatKey, anyio.CancelScope] = {}
        self._seq = itertools.count(1)
        self.watchers: list[tuple[ChatKey | None, Any]] = []

    @property
    def operator(self) -> OperatorHost:
        unused: Any = None
        return OperatorHost(
            tools=unused,
            outbox=self.outbox,
            turns=unused,
            runs=self,
            plugins=unused,
            activity=self,
            sessions=self,
            chats=self,
            media=self,
            pages=self.pages,
            webhooks=self.webhooks,
            site=self.site,
        )

    async def accept(self, message: ChatMessage) -> None:
        known = self.history[message.chat_key]
        if message.message_id and any(r.message_id == message.message_id for r in known):
            return
        self.accepted.append(message)
        self.add(
            message.chat_key,
            Author.PERSON,
            message.segments,
            time=message.time,
            message_id=message.message_id,
            sender=message.sender,
            to_bot=message.to_bot,
        )
        if self.mind is not None and message.to_bot:
            self.mind.hears(message)

    def add(self, key: ChatKey, author: Author, segments: Segments, **more: Any) -> Record:
        record = Record(seq=next(self._seq), chat_key=key, author=author, segments=segments, **more)
        self.history[key].append(record)
        self._tell(key, Recorded(record))
        return record

    def change(self, record: Record, **more: Any) -> Record:
        changed = msgspec.structs.replace(record, **more)
        records = self.history[record.chat_key]
        records[[r.seq for r in records].index(record.seq)] = changed
        self._tell(record.chat_key, Recorded(changed))
        return changed

    async def recall(self, chat_key: ChatKey, message_id: str) -> None:
        for record in list(self.history[chat_key]):
            if record.message_id == message_id:
                self.change(record, recalled=True)

    async def receive_request(self, request: ContactRequest) -> None: ...

    async def instance_of(self, adapter: str, account: str) -> str:
        return adapter

    async def known_since(self, adapter: str, account: str) -> float | None:
        return None

    async def account_of(self, instance: str) -> str | None:
        return "bot"

    def online(self) -> None: ...

    async def stop(self, chat_key: ChatKey) -> bool:
        scope = self.turns.get(chat_key)
        if scope is not None:
            scope.cancel()
        return scope is not None

    def working(self, chat_key: ChatKey) -> bool:
        return chat_key in self.turns

    @asynccontextmanager
    async def watch(
        self, chat_key: ChatKey | None = None
    ) -> AsyncIterator[AsyncIterator[Activity]]:
        send, receive = anyio.create_memory_object_stream[Activity](1000)
        entry = (chat_key, send)
        self.watchers.append(entry)
        try:
            with receive:
                yield receive
        finally:
            self.watchers.remove(entry)
            send.close()

    async def records(self, chat_key: ChatKey, *, after: int = 0, limit: int = 200) -> list[Record]:
        records = self.history.get(chat_key, [])
        if not after:
            return records[-limit:]
        return [record for record in records if record.seq > after][:limit]

    async def name_chat(self, chat_key: ChatKey, name: str) -> None:
        pass

    async def newest_times(self, instance: str) -> Mapping[ChatKey, float]:
        return {key: records[-1].time for key, records in self.history.items() if records}

    async def of_instance(self, instance: str) -> list[ChatKey]:
        ours = [key for key, records in self.history.items() if records]
        return sorted(ours, key=lambda key: -self.history[key][-1].seq)

    async def beside(self, run_id: str) -> list[RunRecord]:
        return self.code.get(run_id, [])

    async def read(self, chat_key: ChatKey, path: str) -> bytes | None:
        found = Path(path).resolve()
        if not found.is_relative_to((self.media.folder / chat_key.file_name).resolve()):
            return None
        return found.read_bytes() if found.is_file() else None

    def _tell(self, key: ChatKey, activity: Activity) -> None:
        for wanted, send in list(self.watchers):
            if wanted in (None, key):
                send.send_nowait(activity)

    @asynccontextmanager
    async def turn(self, key: ChatKey) -> AsyncIterator[None]:
        with anyio.CancelScope() as scope:
            self.turns[key] = scope
            self._tell(key, Working(key, busy=True))
            try:
                yield
            finally:
                del self.turns[key]
                self._tell(key, Working(key, busy=False))


class ScriptedMind:
    """Answers by rules. It calls the adapter's ``send``, as the outbox would."""

    def __init__(self, host: FakeHost, adapter: Adapter, tasks: TaskGroup, clock: Any) -> None:
        self.host, self.adapter, self.tasks, self.clock = host, adapter, tasks, clock
        self._runs = itertools.count(1)
        host.mind = self

    def hears(self, message: ChatMessage) -> None:
        self.tasks.start_soon(self._answer, message)

    async def _answer(self, message: ChatMessage) -> None:
        key, text = message.chat_key, message.text.lower()
        run_id = f"run-{next(self._runs)}"
        async with self.host.turn(key):
            await anyio.sleep(3600 if "wait" in text else 0.4)
            began = self.clock()
            if "voice" in text or "晚安" in text:
                wav = tone(VOICE_S)
                media = await self.host.media.keep_bytes(key, wav, name="good-night.wav")
                code = 'send_tts_voice("Good night! Sleep well.")'
                await self._send(key, run_id, (Voice(media, "Good night! Sleep well."),))
            elif "draw" in text or "card" in text:
                media = await self.host.media.keep_bytes(key, card(), name="hello-card.png")
                code = (
                    "# A card with a friendly word\n"
                    'path = draw_card("Hello!", theme="sunrise")\nsend_image(path)'
                )
                await self._send(key, run_id, (Image(media),))
            elif "dice" in text:
                code = (
                    "import random\n\nroll = random.randint(1, 20)\n"
                    'send_channel_message(f"You rolled {roll}.")'
                )
                await self._send(key, run_id, (Text("You rolled 17."),))
            elif "file" in text:
                media = await self.host.media.keep_bytes(key, b"a,b\n1,2\n", name="table.csv")
                code = 'send_file("table.csv")'
                await self._send(key, run_id, (File(media),))
            elif "unknown" in text or "reject" in text:
                code = 'send_channel_message("Did this arrive?")'
                state = DeliveryState.UNKNOWN if "unknown" in text else DeliveryState.REJECTED
                await self._send(key, run_id, (Text("Did this arrive?"),), state)
            else:
                hello = f"Hello {message.sender.name}!"
                code = f'send_channel_message("{hello}", reply_to="{message.message_id}")'
                reply = Reply(message.message_id, message.sender.user_id, message.text)
                await self._send(key, run_id, (reply, Text(hello)))
            failed = "fail" in text
            run = RunRecord(
                run_id=run_id,
                chat_key=key,
                code=code,
                output="done\n",
                stop="error" if failed else "end",
                error='Traceback: line 1\nValueError: "no"' if failed else "",
                started=began,
                seconds=0.042,
            )
            self.host.code[run_id] = [run]
            if "dice" in text:
                error = "NameError: name 'rol' is not defined"
                vain = {"run_id": f"{run_id}-vain", "code": "print(rol)", "error": error}
                self.host.code[run_id].insert(0, msgspec.structs.replace(run, **vain))

    async def _send(
        self,
        key: ChatKey,
        run_id: str,
        segments: Segments,
        state: DeliveryState | None = None,
    ) -> None:
        record = self.host.add(
            key,
            Author.BOT,
            segments,
            time=self.clock(),
            run_id=run_id,
            sender=Sender("bot", "Nekro"),
            state=DeliveryState.SENDING,
        )
        receipt = await self.adapter.send(
            Delivery(delivery_id=f"d{record.seq}", chat_key=key, segments=segments, run_id=run_id)
        )
        self.host.change(record, state=state or receipt.state, message_id=receipt.message_id)


def tone(seconds: float, rate: int = 22050) -> bytes:
    """Make a WAV file that sounds a little like a voice: syllables of a gliding tone, 16-bit PCM
    mono."""
    count = int(seconds * rate)
    frames = bytearray()
    for i in range(count):
        at = i / rate
        loud = abs(math.sin(at * 7)) * (0.4 + 0.6 * abs(math.sin(at * 1.9)))
        frames += struct.pack(
            "<h", int(9000 * loud * math.sin(2 * math.pi * (190 + 40 * math.sin(at * 3)) * at))
        )
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(rate)
        wav.writeframes(bytes(frames))
    return file.getvalue()


def card() -> bytes:
    """Make a small picture with a word on it."""
    picture = Picture.linear_gradient("L").resize((720, 400))
    picture = Picture.merge(
        "RGB",
        (
            picture.point(lambda v: 255 - v // 8),
            picture.point(lambda v: 170 + v // 5),
            picture.point(lambda v: 120 + v // 2),
        ),
    )
    ImageDraw.Draw(picture).text((360, 200), "Hello!", fill=(70, 40, 60), anchor="mm", font_size=96)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
