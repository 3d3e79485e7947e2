"""Get bytes that somebody named by URL, within bounds and from public addresses."""

import base64
import binascii
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Self
from urllib.parse import unquote_to_bytes

import anyio
import httpx

from nekro_core.addresses import is_public
from nekro_core.delivery.settings import MediaSettings

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LOOKUPS = 2
"""Names that are looked up at once. The event loop has four threads for it, and the model's address
is looked up there too: name servers of strangers that never answer must not keep all of them busy.
"""


Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Addresses of a host's name, best first. Raises `OSError`."""


class NotFetched(Exception):
    """There are no bytes; the text says why, for a person to read."""


class Fetcher:
    """Fetches ``http(s)``, ``data:`` and ``base64://``. An async context manager.

    A host is resolved here and the address that was checked is the one connected to, so a name
    cannot turn from public to private in between.
    """

    def __init__(self, settings: MediaSettings, *, resolve: Resolve | None = None) -> None:
        self._settings = settings
        self._resolve = resolve or _resolve
        self._client: httpx.AsyncClient | None = None
        self._lookups = anyio.CapacityLimiter(_LOOKUPS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def fetch(self, url: str) -> bytes:
        """The bytes behind a URL. Raises `NotFetched`."""
        scheme = url.partition(":")[0].lower()
        match scheme:
            case "base64":
                return self._decode(url[len("base64://") :])
            case "data":
                return self._data(url)
            case "http" | "https":
                return await self._http(url)
        raise NotFetched(f"{scheme[:16] or 'no'}: URL; http, https, data and base64 are taken")

    def _data(self, url: str) -> bytes:
        head, comma, body = url.partition(",")
        if not comma:
            raise NotFetched("malformed data: URL")
        if head.lower().endswith(";base64"):
            return self._decode(body)
        self._check_size(len(body) // 3)  # Percent-encoded: three characters a byte at most.
        return self._checked(unquote_to_bytes(body))

    def _decode(self, text: str) -> bytes:
        self._check_size(len(text) * 3 // 4 - 2)
        try:
            # Some implementations break lines or leave the padding out.
            compact = "".join(text.split())
            return self._checked(
                base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
            )
        except (binascii.Error, ValueError):
            raise NotFetched("malformed base64") from None

    async def _http(self, url: str) -> bytes:
        try:
            with anyio.fail_after(self._settings.fetch_s):
                for _ in range(self._settings.max_redirects + 1):
                    answer = await self._get(httpx.URL(url))
                    if isinstance(answer, bytes):
                        return answer
                    url = answer
                raise NotFetched(f"more than {self._settings.max_redirects} redirects")
        except TimeoutError:
            raise NotFetched(f"not there within {self._settings.fetch_s:g} s") from None
        # ValueError: what "idna" raises for "xn--" and its like, past httpx.
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ssl.SSLError, ValueError) as error:
            words = str(error) or type(error).__name__
            raise NotFetched(f"cannot be fetched: {words}") from None

    async def _get(self, url: httpx.URL) -> bytes | str:
        """The body, or where it has moved to."""
        if url.scheme not in {"http", "https"} or not url.host:
            raise NotFetched("redirected to something that is not http")
        address = await self._address(url)
        request = self._open_client().build_request(
            "GET",
            url.copy_with(host=address, username=None, password=None),
            # Compressed transfer would let a small body unfold into a large one.
            headers={"Host": url.netloc.decode(), "Accept-Encoding": "identity"},
            extensions={"sni_hostname": url.raw_host.decode()},
        )
        response = await self._open_client().send(request, stream=True)
        try:
            if response.status_code in _REDIRECTS and "location" in response.headers:
                return str(url.join(response.headers["location"]))
            if not response.is_success:
                raise NotFetched(f"the server answered {response.status_code}")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise NotFetched("the server answered in a compression that was not asked for")
            self._check_size(int(response.headers.get("content-length") or 0))
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                self._check_size(len(body))
            return bytes(body)
        finally:
            await response.aclose()

    async def _address(self, url: httpx.URL) -> str:
        host = url.host
        async with self._lookups:
            found = await self._resolve(host, url.port or 0)
        addresses = [ipaddress.ip_address(address) for address in found]
        if host not in self._settings.private_hosts:
            for address in addresses:
                if not is_public(address):
                    raise NotFetched(
                        f"{host} is at {address}, which is not public. If the platform's program "
                        "runs there, add the host to NEKRO_DELIVERY__MEDIA__PRIVATE_HOSTS"
                    )
        return str(addresses[0])

    def _open_client(self) -> httpx.AsyncClient:
        if self._client is None:
            # No proxy from the environment: it would resolve the name again, past the check.
            self._client = httpx.AsyncClient(trust_env=False, timeout=self._settings.fetch_s)
        return self._client

    def _check_size(self, size: int) -> None:
        if size > self._settings.max_bytes:
            raise NotFetched(f"larger than {self._settings.max_bytes // 1024 // 1024} MiB")

    def _checked(self, data: bytes) -> bytes:
        self._check_size(len(data))
        return data


async def _resolve(host: str, port: int) -> list[str]:
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]).partition("%")[0] for entry in found]
