"""Tests of connections between a box and the host, which every box must pass.

Part of `tests.sandbox.conformance`.
"""

import contextlib
import errno
from collections.abc import AsyncIterator

import anyio
import anyio.abc
import pytest

from nekro_core.sandbox.box import Box, BoxConnectionError, BoxLost
from tests.sandbox.run_code import Tools, play

ECHO = """
import socket, sys, threading
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
def serve(peer):
    while data := peer.recv(65536):
        peer.sendall(data)
    peer.sendall(b"|end")
    peer.close()
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


async def serve_echo(box: Box, port: int) -> None:
    """Start a server in the box that sends back what it gets, and ``|end`` when its input ends."""
    await box.write_file("echo.py", ECHO.encode())
    # make the file here: the shell might make it only after the read below
    await box.write_file(f"ready.{port}", b"")
    await box.execute(f"python3 -I -S echo.py {port} > ready.{port} 2>&1 &")
    while b"ready" not in await box.read_file(f"ready.{port}", limit=1000):
        await anyio.sleep(0.01)


async def everything(stream: anyio.abc.ByteStream) -> bytes:
    return b"".join([piece async for piece in stream])


IN_FLIGHT = """
import socket, time
sent = socket.socket()
pairs = []
try:
    while True:
        pairs.append(socket.socketpair())
        for _ in range(10):
            socket.send_fds(pairs[-1][0], [b"x"], [sent.fileno()] * 10)
except OSError as error:
    print(error.errno, flush=True)
time.sleep(99)
"""
"""A program that sends as many descriptors into sockets as the kernel allows."""


async def fill_sockets(box: Box) -> None:
    """Run `IN_FLIGHT` in the background, and wait until the kernel's limit is reached."""
    await box.write_file("in_flight.py", IN_FLIGHT.encode())
    await box.write_file("full", b"")
    await box.execute("python3 -I -S in_flight.py >full 2>&1 &")
    while not (written := await box.read_file("full", limit=1000)).endswith(b"\n"):
        await anyio.sleep(0.01)
    assert written == b"%d\n" % errno.ETOOMANYREFS


class StreamConformance:
    """Needs the fixtures ``box`` (new for each test) and ``used_box`` (shared)."""

    async def test_the_host_talks_to_a_server_in_the_box(self, box: Box) -> None:
        with anyio.fail_after(30):
            await serve_echo(box, 8000)
            async with await box.connect(8000) as stream:
                await stream.send(b"hello")
                assert await stream.receive() == b"hello"
                await stream.send_eof()
                assert await everything(stream) == b"|end"
            data = bytes(range(256)) * 8000
            async with await box.connect(8000) as stream, anyio.create_task_group() as tasks:

                async def send() -> None:
                    await stream.send(data)
                    await stream.send_eof()

                tasks.start_soon(send)
                assert await everything(stream) == data + b"|end"
            streams = [await box.connect(8000) for _ in range(8)]
            for number, stream in enumerate(streams):
                await stream.send(b"%d" % number)
            for number, stream in enumerate(streams):
                assert await stream.receive() == b"%d" % number
                await stream.aclose()
            await self._dies_with_its_box(box)

    async def _dies_with_its_box(self, box: Box) -> None:
        stream, listener = await box.connect(8000), await box.listen(3128)
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()

            async def accept() -> None:
                with pytest.raises(anyio.ClosedResourceError):
                    await listener.accept()

            tasks.start_soon(read)
            tasks.start_soon(accept)
            await anyio.sleep(0.1)
            await box.destroy()
        await stream.aclose()
        await listener.aclose()
        with pytest.raises(BoxLost):
            await box.connect(8000)

    @pytest.mark.parametrize("port", [9, 0, -1, 65536])
    async def test_a_port_without_a_server_is_refused(self, used_box: Box, port: int) -> None:
        with pytest.raises(BoxConnectionError) as caught, anyio.fail_after(30):
            await used_box.connect(port)
        assert isinstance(caught.value, ConnectionRefusedError)

    async def test_code_in_the_box_talks_to_the_host(self, used_box: Box) -> None:
        code = """
            import socket
            peer = socket.create_connection(("127.0.0.1", 3128))
            peer.sendall(b"let me out")
            print(peer.recv(100).decode(), peer.recv(100))
        """
        listener = await used_box.listen(3128)
        with pytest.raises(BoxConnectionError):
            await used_box.listen(3128)
        asked = []

        async def answer() -> None:
            async with await listener.accept() as stream:
                asked.append(await stream.receive())
                await stream.send(b"never")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            assert (await play(used_box, code)).output == "never b''\n"
        assert asked == [b"let me out"]
        await listener.aclose()
        await listener.aclose()
        assert "ConnectionRefusedError" in (await play(used_box, code)).error
        with pytest.raises(anyio.ClosedResourceError):
            await listener.accept()
        await (await used_box.listen(3128)).aclose()

    async def test_a_peer_that_does_not_read_blocks_no_other_stream(self, used_box: Box) -> None:
        """Tool calls and other streams do not wait for a stream that is full in both directions."""
        await serve_echo(used_box, 8001)
        full = await used_box.connect(8001)
        with anyio.move_on_after(1):
            await full.send(bytes(100_000_000))
        code = "print(sum(tool() for _ in range(50)))"
        with anyio.fail_after(30):
            assert (await play(used_box, code, tools=Tools({"tool": 1}))).output == "50\n"
            async with await used_box.connect(8001) as other:
                await other.send(b"quick")
                assert await other.receive() == b"quick"
        await full.aclose()

    async def test_connections_work_while_descriptors_fill_the_sockets(self, box: Box) -> None:
        """The kernel limits such descriptors for each user. So code could use up the descriptors
        that the supervisor needs."""
        await serve_echo(box, 8003)
        await box.execute("mkdir packed")
        with anyio.fail_after(30):
            await fill_sockets(box)
            async with await box.connect(8003) as stream:
                await stream.send(b"here")
                assert await stream.receive() == b"here"
            async with contextlib.aclosing(box.pack("packed")) as pieces:
                assert (await box.unpack("again", pieces)).files == 0

    async def test_an_archive_is_sent_over_its_own_stream(self, used_box: Box) -> None:
        await used_box.execute("mkdir -p packed; head -c 3000000 /dev/urandom > packed/a")
        async with contextlib.aclosing(used_box.pack("packed")) as pieces:
            unpacked = await used_box.unpack("again", pieces)
        assert unpacked.bytes == 3_000_000
        async with contextlib.aclosing(used_box.pack("packed")) as pieces:
            unpacked = await used_box.unpack("again", passed_on(pieces))
        assert unpacked.bytes == 3_000_000
        compared = await used_box.execute("cmp packed/a again/a && rm -r packed again")
        assert compared.exit_code == 0


async def passed_on(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield piece
