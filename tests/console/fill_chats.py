"""Fills the bot of `serve` with chats: messages of people, a picture and a file."""

import time

import anyio
from fastapi import FastAPI

from nekro_core.app.app import App
from nekro_core.chat import ChatKey, ChatMessage, File, Image, Segments, Sender, Text
from tests.delivery.fakes import FakeAdapter

MANY = 10_000
_AT_ONCE = 100
GROUP = ChatKey.parse("fake-group_30003")
EVIL = "<img src=x onerror=alert(1)>"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


async def fill(app: App, *, many: bool = False) -> None:
    app.add_adapter(FakeAdapter(text_length=4_000))
    await app.start()
    if many:
        await fill_many(app)
    media = app.operator.media
    picture = await media.keep_bytes(GROUP, PNG, name="cat.png", expect="image")  # type: ignore[attr-defined]
    page = await media.keep_bytes(GROUP, b"<script>alert(1)</script>", name="page.html")  # type: ignore[attr-defined]
    for number, (who, segments) in enumerate(
        (
            (EVIL, (Text("Has anybody seen the cat?"),)),
            ("Mei", (Text("Here it is"), Image(picture))),
            ("Mei", (Text("and my homework"), File(page))),
            ("Lin", (Text("Nekro, what is in the picture?"),)),
        )
    ):
        await say(app, f"m{number}", who, segments)
    await say(app, "p0", "Lin", (Text("hello"),), ChatKey.parse("fake-private_Lin"))
    await say(app, "r0", "Mei", (Text("I should not have said that"), Image(picture)))
    await app.host.recall(GROUP, "r0")


async def fill_many(app: App, count: int = MANY) -> None:
    """Add chats with one message each, older than the others."""
    at_once = anyio.CapacityLimiter(_AT_ONCE)

    async def begin(number: int) -> None:
        key = ChatKey.parse(f"fake-group_9{number:05d}")
        async with at_once:
            await say(app, f"x{number}", "Ann", (Text(f"message {number}"),), key)

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(begin, number)


def add_routes(site: FastAPI, app: App) -> None:
    """Add an address. If a test calls it, a person says something."""

    @site.post("/test/say")
    async def heard(text: str) -> None:
        await say(app, f"t{time.monotonic_ns()}", "Lin", (Text(text),))


async def say(
    app: App, message_id: str, who: str, segments: Segments, chat_key: ChatKey = GROUP
) -> None:
    """Let a person say something."""
    await app.host.accept(
        ChatMessage(
            chat_key=chat_key,
            message_id=message_id,
            sender=Sender(who[:8], who),
            segments=segments,
            time=time.time(),
            account="bot",
        )
    )
