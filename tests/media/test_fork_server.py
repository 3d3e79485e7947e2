"""The fork server decodes each picture in a new child, which sees no other picture."""

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
    """Sends requests with files of ``folder`` to a fork server."""

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


async def test_a_child_has_nothing_of_another_file_in_its_memory(ask: Asking) -> None:
    for name in (b"one", b"two"):
        assert await ask("remember", name) == {"before": [], "seen": [name.decode()], "length": 3}


@known_machine
async def test_each_forbidden_call_of_a_compromised_child_is_refused(ask: Asking) -> None:
    tried = await ask("", deeds=NO_DECODING)
    assert [deed for deed in NO_DECODING if "refused" not in tried[deed]] == []
    assert "refused" in await ask("write", path=str(Path("mark").absolute()))


async def test_the_server_starts_with_the_first_file_and_ends_when_idle(ask: Asking) -> None:
    assert ask.server.process_id is None
    await ask("remember")
    await ask.until_it_ended()
    assert (await ask("remember"))["seen"] == ["data"]


async def test_a_killed_server_is_restarted(ask: Asking) -> None:
    await ask("remember")
    if ask.server.process_id is not None:
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(ask.server.process_id, signal.SIGKILL)
    await ask.until_it_ended()
    assert (await ask("remember"))["seen"] == ["data"]


async def test_a_crashing_child_does_not_stop_the_next_file(ask: Asking) -> None:
    with pytest.raises(UnusableMedia, match="gave up"):
        await ask("crash")
    assert (await ask("remember"))["seen"] == ["data"]


@pytest.mark.long
@pytest.mark.parametrize("deed", ["wait", "spin"])
async def test_a_child_that_exceeds_its_time_is_killed(ask: Asking, deed: str) -> None:
    with pytest.raises(UnusableMedia, match="gave up"):
        await ask(deed, seconds=1)


@known_machine
async def test_a_child_cannot_extend_its_time_limit(ask: Asking) -> None:
    with pytest.raises(UnusableMedia, match="gave up"):
        await ask("put off")


@pytest.mark.parametrize(
    "answer", [b"", b"no JSON", b"[]\n", b'{"length": 10}\nhalf', b"[" * 100_000, b"{}\n"]
)
def test_an_incomplete_answer_is_an_error(answer: bytes) -> None:
    with pytest.raises(UnusableMedia, match="gave up"):
        read_answer(answer)


async def test_many_requests_at_once_are_all_answered(ask: Asking) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(ask, "remember")


async def test_a_cancelled_request_does_not_block_the_next_one(ask: Asking) -> None:
    with anyio.move_on_after(0.05):
        await ask("wait")
    assert (await ask("remember"))["seen"] == ["data"]
