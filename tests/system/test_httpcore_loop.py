"""A request does not search for a package that tells the kind of the event loop."""

import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

import anyio
import httpx
import pytest

from nekro_core.system.httpcore_loop import httpcore_knows_asyncio


class Searches:
    """A finder that finds nothing, and counts the searches for sniffio."""

    def __init__(self) -> None:
        self.count = 0

    def find_spec(
        self,
        name: str,
        _path: Sequence[str] | None = None,
        _target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        self.count += name == "sniffio"
        return None


@pytest.fixture
def searches() -> Iterator[Searches]:
    finder = Searches()
    sys.meta_path.insert(0, finder)
    yield finder
    sys.meta_path.remove(finder)


@asynccontextmanager
async def server() -> AsyncIterator[str]:
    """A server that answers each request with no content. Yields its address."""

    async def answer(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.start_soon(listener.serve, answer)
        yield f"http://127.0.0.1:{port}/"
        tasks.cancel_scope.cancel()


async def test_a_request_does_not_search_for_sniffio(searches: Searches) -> None:
    async with server() as address, httpx.AsyncClient(trust_env=False) as client:
        await client.get(address)
        if not searches.count:
            pytest.skip("this httpcore does not search for sniffio")
        before = searches.count
        with httpcore_knows_asyncio():
            assert (await client.get(address)).status_code == 204
        assert searches.count == before
        await client.get(address)
        assert searches.count > before, "after the block, httpcore asks as before"
