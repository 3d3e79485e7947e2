"""Cells fetch data from the network, within the limits that the operator set."""

import json
from collections.abc import AsyncIterator

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from nekro_core.api.reactive import (
    FetchFailed,
    Resources,
    Unreadable,
    cell,
    computed,
    fetch_data,
    scope,
)
from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.delivery.media.settings import MediaSettings
from tests.peers.listening import LoopbackServer, read_request
from tests.peers.reach import Anywhere

PAGES = {
    "/text": "a,b\n1,呀\n".encode(),
    "/bom": b"\xef\xbb\xbfhi",
    "/json": json.dumps({"stars": 3}).encode(),
    "/latin": "café".encode("latin-1"),
    "/deep": b"[" * 60_000,
    "/large": b"x" * 70_000,
}


class Pages(LoopbackServer):
    """Serves `PAGES`, and never answers ``/slow``."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        path = (await read_request(reader)).path
        self.asked.append(path)
        if path == "/slow":
            await anyio.sleep_forever()
        body = PAGES.get(path)
        status = "200 OK" if body is not None else "404 Not Found"
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body or b'')}\r\n\r\n"
        await stream.send(head.encode() + (body or b""))
        return True


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    async with Pages() as serving:
        yield serving


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    settings = MediaSettings(max_bytes=64 * 1024, fetch_s=2)
    async with Fetcher(settings, Anywhere()) as opened:
        yield opened


def address(pages: Pages, path: str) -> str:
    return pages.base_url.removesuffix("/v1") + path


@pytest.mark.parametrize(
    ("path", "mode", "value"),
    [
        ("/text", "text", "a,b\n1,呀\n"),
        ("/bom", "text", "hi"),
        ("/json", "json", {"stars": 3}),
        ("/latin", "bytes", b"caf\xe9"),
    ],
)
async def test_fetched_data_are_decoded_as_text_json_or_bytes(
    pages: Pages, fetcher: Fetcher, path: str, mode: str, value: object
) -> None:
    async with scope(Resources(fetcher=fetcher)):
        data = fetch_data(address(pages, path), mode=mode)
        assert (await data.settled()).result == value


@pytest.mark.parametrize(
    ("path", "mode", "kind", "words"),
    [
        ("/gone", "json", FetchFailed, "404"),
        ("/text", "json", Unreadable, "is no json"),
        ("/latin", "text", Unreadable, "is no text"),
        ("/deep", "json", Unreadable, "is no json"),
        ("/large", "bytes", FetchFailed, "larger than"),
        ("/slow", "text", FetchFailed, "within 2 s"),
    ],
)
async def test_missing_or_undecodable_data_is_an_error(
    pages: Pages, fetcher: Fetcher, path: str, mode: str, kind: type[Exception], words: str
) -> None:
    async with scope(Resources(fetcher=fetcher)):
        error = (await fetch_data(address(pages, path), mode=mode).settled()).error
    assert isinstance(error, kind)
    assert words in str(error)


async def test_a_large_json_document_is_decoded_in_a_thread(pages: Pages) -> None:
    PAGES["/much"] = json.dumps([[number] for number in range(50_000)]).encode()
    async with (
        Fetcher(MediaSettings(), Anywhere()) as fetcher,
        scope(Resources(fetcher=fetcher)),
    ):
        data = fetch_data(address(pages, "/much"))
        assert (await data.settled()).result[-1] == [49_999]


async def test_private_addresses_are_refused(pages: Pages) -> None:
    async with Fetcher(MediaSettings()) as fetcher, scope(Resources(fetcher=fetcher)):
        for url in (address(pages, "/text"), "http://169.254.169.254/", "file:///etc/passwd"):
            assert isinstance((await fetch_data(url).settled()).error, FetchFailed)
    assert pages.asked == []


async def test_a_fetch_runs_again_when_its_address_changes(pages: Pages, fetcher: Fetcher) -> None:
    path = cell("")
    async with scope(Resources(fetcher=fetcher)):
        data = fetch_data(computed(lambda: path() and address(pages, path())), mode="text")
        assert (data.pending, data.result) == (False, None)
        path.set("/slow")
        while not pages.asked:
            await anyio.sleep(0.01)
        path.set("/bom")
        assert (await data.settled()).result == "hi"
        path.set("/gone")
        assert data.result is None
        assert "404" in str((await data.settled()).error)
        before = len(pages.asked)
        data.refresh()
        await data.settled()
        assert len(pages.asked) == before + 1


async def test_the_error_says_that_there_is_no_network_or_which_argument_is_wrong(
    pages: Pages, fetcher: Fetcher
) -> None:
    async with scope(Resources()):
        assert "no network" in str((await fetch_data("http://x.example").settled()).error)
    async with scope(Resources(fetcher=fetcher)):
        assert "expected text, json or bytes" in str(
            (await fetch_data(address(pages, "/text"), mode="yaml").settled()).error
        )
        assert "expected a text" in str((await fetch_data(7).settled()).error)
