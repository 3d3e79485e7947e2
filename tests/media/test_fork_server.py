"""A child for each picture: it costs little, and sees and leaves nothing."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.media.child_answer import read_answer
from nekro_core.media.errors import UnusableMedia
from nekro_core.media.fork_server import ForkServer
from tests.media.test_hostile_files import NO_DECODING, known_machine


class Asking:
    """A fork server that is asked with files of ``folder``."""

    def __init__(self, server: ForkServer, folder: Path) -> None:
        self.server = server
        self._file = folder / "file"

    async def __call__(self, deed: str, data: bytes = b"data", **more: Any) -> dict[str, Any]:
        self._file.write_bytes(data)
        seconds = more.pop("seconds", 30)
        with self._file.open("rb") as source:
            fields, _ = await self.server.run(
                {"deed": deed, **more}, source.fileno(), seconds=seconds
            )
        return fields

    async def until_it_ended(self) -> None:
        with anyio.fail_after(60):
            while self.server.process_id is not None:
                await anyio.sleep(0.02)


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asking]:
    async with ForkServer("tests.media.prying_forks", at_once=2) as server:
        yield Asking(server, tmp_path)


async def test_no_file_is_in_the_memory_of_the_next(ask: Asking) -> None:
    for name in (b"one", b"two"):
        assert await ask("remember", name) == {"before": [], "seen": [name.decode()], "length": 3}


@known_machine
async def test_a_child_that_was_taken_over_reaches_nothing(ask: Asking) -> None:
    tried = await ask("", deeds=NO_DECODING)
    assert [deed for deed in NO_DECODING if "refused" not in tried[deed]] == []
    assert "refused" in await ask("write", path=str(Path("mark").absolute()))


async def test_it_starts_with_the_first_file_and_ends_after_the_last(ask: Asking) -> None:
    assert ask.server.process_id is None
    await ask("remember")
    await ask.until_it_ended()
    assert (await ask("remember"))["seen"] == ["data"]


async def test_one_that_was_killed_is_started_again(ask: Asking) -> None:
    await ask("remember")
    if ask.server.process_id is not None:
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(ask.server.process_id, signal.SIGKILL)
    await ask.until_it_ended()
    assert (await ask("remember"))["seen"] == ["data"]


async def test_a_crash_costs_its_own_file_only(ask: Asking) -> None:
    with pytest.raises(UnusableMedia, match="gave up"):
        await ask("crash")
    assert (await ask("remember"))["seen"] == ["data"]


@pytest.mark.long
@pytest.mark.parametrize("deed", ["wait", "spin"])
async def test_its_time_is_the_kernels(ask: Asking, deed: str) -> None:
    with pytest.raises(UnusableMedia, match="gave up"):
        await ask(deed, seconds=1)


@known_machine
async def test_its_time_cannot_be_put_off(ask: Asking) -> None:
    with pytest.raises(UnusableMedia, match="gave up"):
        await ask("put off")


@pytest.mark.parametrize(
    "answer", [b"", b"no JSON", b"[]\n", b'{"length": 10}\nhalf', b"[" * 100_000, b"{}\n"]
)
def test_half_an_answer_is_none(answer: bytes) -> None:
    with pytest.raises(UnusableMedia, match="gave up"):
        read_answer(answer)


async def test_many_at_once_wait_for_each_other(ask: Asking) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(ask, "remember")


async def test_who_no_longer_waits_leaves_a_server_that_works(ask: Asking) -> None:
    with anyio.move_on_after(0.05):
        await ask("wait")
    assert (await ask("remember"))["seen"] == ["data"]
