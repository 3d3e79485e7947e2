"""A supervisor sends invalid frames to the host, and a run sends invalid frames to its
supervisor."""

import json
import os
import random
import socket
import textwrap
from collections.abc import AsyncIterator
from contextvars import Context
from dataclasses import dataclass, field

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nekro_core.sandbox.box import (
    Box,
    BoxConnectionError,
    BoxFileError,
    BoxLost,
    BoxSpec,
    GuestFunction,
    RunLimits,
    SandboxError,
    StopReason,
)
from nekro_core.sandbox.guest import guest_wire as wire
from nekro_core.sandbox.link.box_connection import BoxConnection
from nekro_core.sandbox.link.channel import Channel
from nekro_core.sandbox.link.worker_pool import WorkerPool
from tests.sandbox.run_code import QUICK, Tools, play

KINDS = [*range(30), 32, 33, 34, 40, 41, 99, 0xFFFFFFFF]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
).map(lambda value: json.dumps(value).encode("utf-8", "replace"))
KNOWN = st.fixed_dictionaries(
    {},
    optional={
        "code": st.sampled_from(["", "not_found", "killed", "made_up"]),
        "message": st.text(max_size=5),
        "value": st.none() | st.integers(-5, 5) | st.text(max_size=3),
        "exit_code": st.integers(-300, 300),
        "timed_out": st.booleans(),
        "seconds": st.floats(),
        "printed": st.lists(
            st.tuples(*[st.integers(-3, 9)] * 3, st.text(max_size=3)), min_size=2, max_size=2
        ),
        "stop": st.sampled_from([*StopReason, "made_up"]),
        "truncated": st.booleans(),
        "path": st.text(max_size=5),
        "bytes": st.integers(-5, 5),
        "files": st.integers(-5, 5),
        "fd_socket": st.booleans(),
    },
).map(lambda value: json.dumps(value).encode("utf-8", "replace"))
TEXT = JSON | KNOWN | st.binary(max_size=20) | st.integers(-9, 2**33).map(lambda n: b"%d" % n)
FRAMES = st.lists(
    st.builds(
        wire.frame,
        st.sampled_from(KINDS),
        st.integers(0, 12) | st.sampled_from([0x80000001, 0x80000002, 0xFFFFFFFF]),
        TEXT,
        st.binary(max_size=12) | JSON,
    ),
    max_size=12,
)


class Nobody:
    """The processes and uploads of a box that has neither."""

    def kill(self) -> None:
        """Do nothing: there is no process."""

    async def gone(self) -> None:
        """Return at once: there is no process."""

    async def write(self, path: str, data: bytes) -> None:
        """Do nothing: there are no uploads."""


@dataclass
class ScriptedSupervisor:
    """A box whose supervisor is the test."""

    box: BoxConnection
    supervisor: socket.socket
    outcomes: list[object] = field(default_factory=list)

    async def ask(self) -> None:
        """Call all methods that send a request to the supervisor, at once. Collects results and
        errors."""
        box = self.box

        async def run() -> None:
            tools = Tools({"tool": 1})
            begun = await box.start_run([GuestFunction(names=("tool",))], tools.handle, QUICK)
            self.outcomes.append(await begun.finish())

        async def unpack() -> None:
            async def pieces() -> AsyncIterator[bytes]:
                yield b"x" * 10

            await box.unpack("x", pieces())

        async def pack() -> None:
            async for _ in box.pack("x"):
                pass

        async def converse() -> None:
            async with await box.connect(80, timeout_s=0.2) as stream:
                await stream.send(b"x")
                await stream.receive()

        async def listen() -> None:
            listener = await box.listen(3128)
            await listener.accept()

        async with anyio.create_task_group() as tasks:
            for one in (
                run,
                lambda: box.read_file("x", limit=5),
                lambda: box.status("x"),
                lambda: box.read_piece("x", limit=5),
                lambda: box.write_file("x", b"y"),
                lambda: box.execute("x", timeout_s=0.2),
                lambda: box.glob("x"),
                pack,
                unpack,
                converse,
                listen,
            ):
                tasks.start_soon(self._note, one)
            await anyio.sleep(0.05)
            await box.destroy()

    async def _note(self, one) -> None:  # type: ignore[no-untyped-def]
        try:
            self.outcomes.append(await one())
        except (SandboxError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
            self.outcomes.append(error)
        except anyio.ClosedResourceError as error:
            self.outcomes.append(error)


async def played(sent: bytes) -> ScriptedSupervisor:
    """Call all methods of a box while its supervisor sends these bytes."""
    ours, theirs = socket.socketpair()
    async with anyio.create_task_group() as tasks:
        nobody = Nobody()
        box = BoxConnection(
            box_id="x", spec=BoxSpec(), workers=WorkerPool(tasks), uploads=nobody, processes=nobody
        )
        box.attach(await Channel.open(ours, box.handle, box.lose))
        play = ScriptedSupervisor(box, theirs)
        async with anyio.create_task_group() as asking:
            asking.start_soon(play.ask)
            await anyio.sleep(0)
            await anyio.sleep(0)
            theirs.sendall(sent)
        tasks.cancel_scope.cancel()
    theirs.close()
    return play


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
@given(frames=FRAMES, tail=st.binary(max_size=40))
def test_whatever_a_supervisor_sends_only_its_own_box_can_be_lost(
    frames: list[bytes], tail: bytes
) -> None:
    """Each caller gets a result or a documented error. Nothing hangs, and no other error is
    raised."""

    async def main() -> None:
        with anyio.fail_after(30):
            play = await played(b"".join(frames) + tail)
        assert len(play.outcomes) >= 11
        assert not play.box.alive

    Context().run(anyio.run, main)  # a new context does not have the tests' own event loop


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (wire.HEAD.pack(16, 0, 2**30, 0), "a frame of"),
        (wire.frame(77), "a frame of kind 77"),
        (wire.frame(wire.READY, 1, b"no json"), "broke the protocol"),
        (
            wire.frame(wire.READY, 1, b'{"fd_socket": true}'),
            "do not agree on the descriptor socket",
        ),
        (wire.frame(wire.CHUNK, 1, b"", b"x" * 6), "more of a file"),
        (wire.frame(wire.FILE_DONE, 1, b"[]"), "cannot be read"),
        (wire.frame(wire.ACCEPTED, 1, b"5"), "a number that is taken"),
    ],
)
async def test_a_supervisor_that_breaks_the_protocol_loses_its_box(sent: bytes, words: str) -> None:
    ours, theirs = socket.socketpair()
    async with anyio.create_task_group() as tasks:
        nobody = Nobody()
        box = BoxConnection(
            box_id="x", spec=BoxSpec(), workers=WorkerPool(tasks), uploads=nobody, processes=nobody
        )
        box.attach(await Channel.open(ours, box.handle, box.lose))

        async def send() -> None:
            await anyio.sleep(0)
            theirs.sendall(sent)

        async with anyio.create_task_group() as asking:
            asking.start_soon(send)
            with pytest.raises(BoxLost), anyio.fail_after(30):
                await box.read_file("x", limit=5)
        assert words in box.lost_reason
        await box.destroy()
        tasks.cancel_scope.cancel()
    theirs.close()


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("file", "not a connection"),
        ("pair", "not a connection"),
        ("nothing", "not a connection"),
        ("datagram", "not a connection"),
        ("unconnected", "what is not connected"),
    ],
)
async def test_a_passed_descriptor_must_be_a_single_connection(what: str, words: str) -> None:
    ours, theirs = socket.socketpair()
    fd_socket, supervisor_fd_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one, two = socket.socketpair(
        socket.AF_UNIX, socket.SOCK_DGRAM if what == "datagram" else socket.SOCK_STREAM
    )
    file, unconnected = os.open("/dev/null", os.O_RDONLY), socket.socket()
    given = {
        "file": [file],
        "pair": [one.fileno(), two.fileno()],
        "nothing": [],
        "unconnected": [unconnected.fileno()],
    }
    numbers = given.get(what, [one.fileno()])
    async with anyio.create_task_group() as tasks:
        nobody = Nobody()
        box = BoxConnection(
            box_id="x", spec=BoxSpec(), workers=WorkerPool(tasks), uploads=nobody, processes=nobody
        )
        box.receive_descriptors(fd_socket)
        box.attach(await Channel.open(ours, box.handle, box.lose))
        socket.send_fds(supervisor_fd_socket, [wire.DESCRIPTOR_HEAD.pack(1)], numbers)
        with pytest.raises((BoxLost, BoxConnectionError)), anyio.fail_after(30):
            await box.connect(80, timeout_s=1)
        assert words in box.lost_reason
        await box.destroy()
        tasks.cancel_scope.cancel()
    for end in (theirs, supervisor_fd_socket, one, two, unconnected):
        end.close()
    os.close(file)


FORGE = """
    import os, random
    chance = random.Random({seed})
    head = __import__("struct").Struct("!IIII")
    for _ in range(chance.randint(1, 6)):
        kind = chance.choice((*range(30), 32, 33, 34, 40, 41, 2**32 - 1))
        text = chance.choice((b"", b"1", b"{{}}", b'["tool", [], {{}}]', b"\\xff" * 9, b"[" * 99))
        body = bytes(chance.randrange(3) * 5)
        lie = chance.choice((0, 0, 0, 1, -1, 2**20, 2**31))
        length = min(max(len(text) + lie, 0), 2**32 - 1)
        os.write(3, head.pack(kind, chance.randrange(9), length, len(body)) + text + body)
    if chance.random() < 0.5:
        os._exit(0)
"""


@pytest.mark.jail
async def test_whatever_a_run_sends_only_this_run_is_ended(used_box: Box) -> None:
    """A fuzzer with a seed for the frames that the supervisor forwards. Whatever a run forges, it
    cannot request files, commands or streams."""
    chance = random.Random(20261122)
    tools = Tools({"tool": None})
    limits = RunLimits(seconds=0.3, calls=50)
    for _ in range(40):
        code = textwrap.dedent(FORGE.format(seed=chance.randrange(10**9)))
        with anyio.fail_after(30):
            result = await play(used_box, code, limits, tools)
        assert result.stop in StopReason
        assert used_box.alive
    assert (await play(used_box, "print('well')")).output == "well\n"
    with pytest.raises(BoxFileError):
        await used_box.read_file("nothing", limit=1)
