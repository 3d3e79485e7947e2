"""The jail passes the suite for backends."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from nekro_core.sandbox.box import Backend, BackendUnavailable, Box, RunLimits, StopReason
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.link.box_connection import BoxConnection
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.conformance import BackendConformance
from tests.sandbox.conformance_globals import cell
from tests.sandbox.conformance_streams import StreamConformance
from tests.sandbox.conftest import SMALL
from tests.sandbox.run_code import Tools, play

pytestmark = pytest.mark.jail


class TestJail(BackendConformance):
    @pytest.fixture
    def backend(self, jail: Backend) -> Backend:
        return jail


async def test_only_commands_that_use_too_much_memory_are_ended(box: Box) -> None:
    # The kernel may kill only some of the children. Then the parent ends as the first of them did.
    hungry = "import os, time\nif all(os.fork() for _ in range(5)):\n"
    hungry += " os._exit(128 + (os.wait()[1] & 127))\n"
    hungry += "x = bytearray(b'x') * (70 * 1024 * 1024)\ntime.sleep(30)"
    with anyio.fail_after(25):
        result = await box.execute(["python3", "-IS", "-c", hungry], timeout_s=20)
    assert result.exit_code == 137
    # The children that are left are killed during the next command.
    answers = [(await box.execute("echo well; sleep 0.3")).stdout.text for _ in range(3)]
    assert answers[-1] == "well\n"
    assert (await play(box, "print('well')")).output == "well\n"


async def test_a_waiting_run_ends_when_its_children_are_killed_for_memory(box: Box) -> None:
    hungry = "import os, time\nfor _ in range(5):\n    if not os.fork():\n"
    hungry += "        x = bytearray(b'x') * (100 * 1024 * 1024)\n        break\ntime.sleep(30)"
    for _ in range(2):
        with anyio.fail_after(30):
            result = await play(box, hungry, RunLimits(seconds=15))
        assert result.stop is StopReason.OUT_OF_MEMORY
        assert (await play(box, "import time; time.sleep(0.3); print(1)")).output == "1\n"


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_a_box_starts_while_the_event_loop_is_busy() -> None:
    """The event loop is busy while the bot starts. So it notices late that the supervisor is
    ready."""

    async def keep_busy() -> None:
        while True:
            time.sleep(0.2)  # block the event loop
            await anyio.sleep(0)

    async with anyio.create_task_group() as tasks:
        jail = JailBackend(SandboxSettings(packages=False), tasks)
        await (await jail.create(SMALL)).destroy()  # makes the files that all boxes share
        tasks.start_soon(keep_busy)
        made = await jail.create(SMALL)
        assert made.alive
        await jail.aclose()
        tasks.cancel_scope.cancel()


async def test_measuring_a_run_while_it_is_stopped_does_not_lose_the_box(box: Box) -> None:
    assert isinstance(box, BoxConnection)
    await box.write_file("kept.txt", b"kept")
    run = await box.start_run([], Tools().handle, RunLimits())
    await run.feed("pass", 1)
    assert box.run is not None
    while box.run.is_running_code:
        await anyio.sleep(0.005)
    box.run.stop(StopReason.CANCELLED)
    box.run.charge(0.2)  # the watchdog does this too, because it does not know of the stop
    await run.wait()
    assert (await play(box, "print(open('kept.txt').read())")).output == "kept\n"


async def test_a_bot_without_free_descriptors_gets_an_error_and_recovers(jail: Backend) -> None:
    used = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(used) + 1, hard))
    held = []
    try:
        with suppress(OSError):
            while True:
                held.append(os.dup(1))
        with pytest.raises(BackendUnavailable, match="Too many open files"):
            await jail.create(SMALL)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)
    await (await jail.create(SMALL)).destroy()


STOPS_LATE = """
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
actions = ctypes.create_string_buffer(256)
libc.posix_spawn_file_actions_init(actions)
libc.posix_spawn_file_actions_addopen(actions, 0, b"fifo", os.O_RDONLY, 0)
words = (ctypes.c_char_p * 2)(b"/bin/true", None)
spawn = (ctypes.byref(ctypes.c_int()), b"/bin/true", actions, None, words, None)
threading.Thread(target=libc.posix_spawn, args=spawn, daemon=True).start()
time.sleep(0.1)
x = 1
"""
"""In this code, a thread waits until its child has opened the FIFO. Before that, the thread cannot
be stopped."""


async def test_a_run_that_stops_slowly_keeps_its_globals(box: Box) -> None:
    """On a busy machine, any run may stop this slowly, because it waits for a processor."""
    await box.execute("mkfifo fifo; (sleep 0.4; echo > fifo) >/dev/null 2>&1 &")
    result = await cell(box, STOPS_LATE)
    assert (result.stop, result.globals_kept) == (StopReason.FINISHED, True), result
    assert (await cell(box, "print(x)")).output == "1\n"


NO_MORE_DESCRIPTORS = """
import resource
from contextlib import aclosing
import anyio
from nekro_core.sandbox.box import BoxConnectionError, BoxFileError
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.conformance_streams import fill_sockets, serve_echo
from tests.sandbox.conftest import SMALL
from tests.sandbox.run_code import play

async def main():
    async with anyio.create_task_group() as tasks:
        jail = JailBackend(SandboxSettings(packages=False), tasks)
        box = await jail.create(SMALL)
        await serve_echo(box, 8003)
        await box.execute("mkdir packed")
        await fill_sockets(box)
        try:
            await box.connect(8003)
        except BoxConnectionError as error:
            print(error)
        try:
            async with aclosing(box.pack("packed")) as pieces:
                await box.unpack("again", pieces)
        except (BoxConnectionError, BoxFileError) as error:
            print(error)
        print((await play(box, "print('well')")).output)
        await jail.aclose()
        tasks.cancel_scope.cancel()

resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
anyio.run(main)
"""


def test_a_supervisor_that_cannot_pass_a_descriptor_reports_it_and_lives() -> None:
    """Here the bot's limit of open descriptors is as low as the limit of code in a box."""
    script = [sys.executable, "-c", NO_MORE_DESCRIPTORS]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    refused, archive, well = done.stdout.splitlines()[:3]
    assert "Too many references" in refused
    assert "Too many references" in archive
    assert well == "well"


class TestWithoutDescriptorSocket(StreamConformance):
    """Connections are relayed in frames, as with an engine on another machine."""

    @pytest.fixture
    async def box(self, jail: JailBackend) -> AsyncIterator[Box]:
        made = await jail.create(SMALL, with_fd_socket=False)
        yield made
        await made.destroy()

    @pytest.fixture
    def used_box(self, box: Box) -> Box:
        return box
