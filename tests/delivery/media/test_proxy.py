"""Media are fetched through the proxy that the environment names, and only from the address that
was checked."""

import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nekro_core.delivery.errors import NotFetched
from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.delivery.media.fetch_policy import ChatFetchPolicy, FetchPolicy, PlatformFetchPolicy
from nekro_core.delivery.media.settings import MediaSettings
from tests.peers.forward_proxy import ForwardProxy, forward_proxy
from tests.peers.visited import visited

PUBLIC = "93.184.215.14"


class _Well(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"well")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of an encrypted web server that calls itself ``files.example``."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=files.example", "-addext", "subjectAltName=DNS:files.example"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Well) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(files: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForwardProxy]:
    for name in ("all_proxy", "https_proxy", "http_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with forward_proxy(files) as running:
        monkeypatch.setenv("HTTPS_PROXY", running.address)
        monkeypatch.setenv("HTTP_PROXY", running.address)
        yield running


async def fetched(url: str, reach: FetchPolicy | None = None, **known: str) -> bytes:
    """Fetch a URL. ``known`` maps the first labels of names to their addresses; other names are not
    resolved."""

    async def resolve(host: str, _: int) -> list[str]:
        if host.replace(".", "").isdigit():
            return [host]
        if address := known.get(host.partition(".")[0]):
            return [address]
        raise OSError(f"no address for {host}")

    async with Fetcher(MediaSettings(fetch_s=5), reach, resolve=resolve) as fetcher:
        return await fetcher.fetch(url)


async def test_a_fetch_goes_through_the_proxy_to_the_checked_address(proxy: ForwardProxy) -> None:
    assert await fetched("https://files.example/cat.png", files=PUBLIC) == b"well"
    assert await fetched("http://files.example/cat.png", files=PUBLIC) == b"forwarded"
    assert proxy.asked == [
        f"CONNECT {PUBLIC}:443 for {PUBLIC}:443",
        f"GET http://{PUBLIC}/cat.png for files.example",
    ]


async def test_another_servers_certificate_is_refused(proxy: ForwardProxy) -> None:
    with pytest.raises(NotFetched, match="certificate"):
        await fetched("https://other.example/cat.png", other=PUBLIC)


async def test_a_name_with_an_internal_address_is_refused_before_the_proxy_gets_it(
    proxy: ForwardProxy,
) -> None:
    with pytest.raises(NotFetched, match="not public"):
        await fetched("https://files.example/cat.png", files="10.0.0.7")
    with pytest.raises(NotFetched, match="not public"):
        await fetched("http://127.0.0.1/cat.png")
    with pytest.raises(NotFetched, match="has no network"):
        await fetched("https://files.example/", ChatFetchPolicy(told=lambda _: True), files=PUBLIC)
    assert proxy.asked == []


async def test_a_platforms_program_is_reached_without_the_proxy(proxy: ForwardProxy) -> None:
    with visited() as program:
        reach = PlatformFetchPolicy([f"127.0.0.1:{program.port}"], is_own_port=lambda _: False)
        assert await fetched(f"http://127.0.0.1:{program.port}/", reach) == b"well"
    assert proxy.asked == []


async def test_hosts_that_the_variable_no_proxy_names_are_reached_without_a_proxy(
    proxy: ForwardProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "localhost,.example")
    with pytest.raises(NotFetched):
        await fetched("http://files.example:9/", files="192.88.99.77")
    assert proxy.asked == []


async def test_a_machine_that_resolves_no_names_sends_the_name_to_the_proxy(
    proxy: ForwardProxy,
) -> None:
    assert await fetched("https://files.example/cat.png") == b"well"
    assert proxy.asked == ["CONNECT files.example:443 for files.example:443"]


async def test_a_name_that_only_the_proxy_could_resolve_is_refused(proxy: ForwardProxy) -> None:
    """The owner of a domain could answer the lookup of this machine with no address, and the lookup
    of the proxy with 127.0.0.1."""
    with pytest.raises(NotFetched, match="no address for files"):
        await fetched("https://files.example/cat.png", a="198.41.0.4")
    assert proxy.asked == []


async def test_a_proxy_that_cannot_be_used_is_reported(
    proxy: ForwardProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "gopher://127.0.0.1:9")
    with pytest.raises(NotFetched, match="gopher"):
        await fetched("https://files.example/cat.png", files=PUBLIC)
