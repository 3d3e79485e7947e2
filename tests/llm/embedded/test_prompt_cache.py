"""The prompt cache on disk is loaded where possible, and its failures never stop a request."""

import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream

from nekro_core.llm.embedded.prompt_cache import PromptCache
from nekro_core.llm.model import ChatRequest, PromptMessage

BEGINNING = ChatRequest(messages=(PromptMessage.of("system", "You are a bot."),))


@dataclass
class Slots:
    """A fake of llama.cpp's server on a Unix socket. It saves and restores slots: a slot holds the
    server's state after it has read a prompt."""

    folder: Path
    takes: bool = True
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def serve(self, stream: SocketStream) -> None:
        async with stream:
            head, _, body = (await stream.receive()).partition(b"\r\n\r\n")
            if not body:
                body = await stream.receive()
            action = head.split(b" ")[1].rpartition(b"=")[2].decode()
            name = json.loads(body)["filename"]
            self.asked.append((action, name))
            if action == "save":
                (self.folder / name).write_bytes(b"state")
            status = b"200 OK" if self.takes else b"400 Bad Request"
            await stream.send(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\n{}")


@pytest.fixture
async def slots(tmp_path: Path) -> AsyncIterator[Slots]:
    slots = Slots(tmp_path)
    async with (
        await anyio.create_unix_listener(tmp_path / "s") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, slots.serve)
        yield slots
        tasks.cancel_scope.cancel()


@pytest.fixture
def readings(tmp_path: Path) -> PromptCache:
    return PromptCache(tmp_path, tmp_path / "s", "key")


async def test_a_saved_prompt_cache_is_loaded(slots: Slots, readings: PromptCache) -> None:
    name = readings.name_of(Path("model.gguf"), 8192, BEGINNING)
    assert not await readings.load(0, name)
    assert slots.asked == [], "the server must not be asked for a file that does not exist"
    await readings.save(0, name)
    assert (slots.folder / name).stat().st_mode & 0o077 == 0, "the file contains messages of people"
    assert await readings.load(1, name)
    assert slots.asked == [("save", f"{name}.part"), ("restore", name)]


async def test_a_cache_file_that_the_server_refuses_is_deleted(
    slots: Slots, readings: PromptCache
) -> None:
    (slots.folder / "old.reading").write_bytes(b"of another version")
    slots.takes = False
    assert not await readings.load(0, "old.reading")
    assert not (slots.folder / "old.reading").exists()


async def test_without_a_server_load_and_save_do_nothing(
    tmp_path: Path, readings: PromptCache
) -> None:
    (tmp_path / "a.reading").write_bytes(b"state")
    assert not await readings.load(0, "a.reading")
    await readings.save(0, "b.reading")
    assert not (tmp_path / "b.reading").exists()


async def test_only_the_newest_cache_files_are_kept(slots: Slots, readings: PromptCache) -> None:
    for number in range(9):
        await readings.save(0, f"{number}.reading")
        os.utime(slots.folder / f"{number}.reading", (number, number))
    await readings.save(0, "last.reading")
    kept = {path.name for path in slots.folder.glob("*.reading")}
    assert kept == {f"{number}.reading" for number in range(4, 9)} | {"last.reading"}


def test_each_model_context_size_and_prompt_has_its_own_file_name(readings: PromptCache) -> None:
    other = ChatRequest(messages=(PromptMessage.of("system", "You are a cat."),))
    names = {
        readings.name_of(Path("a.gguf"), 8192, BEGINNING),
        readings.name_of(Path("b.gguf"), 8192, BEGINNING),
        readings.name_of(Path("a.gguf"), 4096, BEGINNING),
        readings.name_of(Path("a.gguf"), 8192, other),
    }
    assert len(names) == 4
