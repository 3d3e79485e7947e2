"""Fetches URLs, and posts to them, with limits on size and time, and only with allowed hosts."""

import base64
import binascii
import ipaddress
import ssl
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import unquote_to_bytes

import anyio
import httpx

from nekro_core.delivery.errors import NotFetched
from nekro_core.delivery.media.fetch_policy import FetchPolicy, PlatformFetchPolicy
from nekro_core.delivery.media.proxied import proxied_client
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.system.addresses import is_public
from nekro_core.system.host_resolver import HostResolver, Resolve
from nekro_core.system.keyed_queue import KeyedLimiter
from nekro_core.system.proxies import environment_proxy

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
AT_ONCE = 64
"""Maximum number of concurrent fetches of the whole bot."""
PER_CHAT = 4
"""Maximum number of concurrent fetches of one chat. Further fetches of this chat wait, and do not
delay other chats."""
PER_HOST = 16
"""Maximum number of concurrent fetches from one host. It is greater than the limit of one chat, so
that slow pictures in one chat do not block other chats' pictures from the same host."""


_SURE_NAME = "a.root-servers.net"


class NoAddress(NotFetched):
    """The address of a host name could not be found in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _HttpRequest:
    """The method, body and headers of a request to a server."""

    method: str = "GET"
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


_GET = _HttpRequest()


class Fetcher:
    """Fetches URLs that begin with ``http://``, ``https://``, ``data:`` or ``base64://``. An async
    context manager.

    A host name is resolved once. The address that was found is checked, and the connection goes to
    this address. So the name cannot change from a public to a private address after the check.
    Public addresses are reached through the proxy of the environment (``HTTPS_PROXY``), if there is
    one. The proxy gets the host name instead of an address only if this machine cannot resolve any
    name. ``reach`` is the policy for each call of `fetch` that gives no policy.
    """

    def __init__(
        self,
        settings: MediaSettings,
        reach: FetchPolicy | None = None,
        *,
        resolve: Resolve | None = None,
    ) -> None:
        self._settings = settings
        self._reach = reach or PlatformFetchPolicy(settings.private_hosts)
        self._client: httpx.AsyncClient | None = None
        self._lookups = HostResolver(resolve)
        self._chats = KeyedLimiter(PER_CHAT)
        self._hosts = KeyedLimiter(PER_HOST)
        self._all = anyio.CapacityLimiter(AT_ONCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def fetch(
        self, url: str, *, reach: FetchPolicy | None = None, key: Hashable = None
    ) -> bytes:
        """Fetch the bytes of a URL. Fetches with the same ``key``, which is usually a chat, share
        the limit `PER_CHAT`. Raises `NotFetched`."""
        scheme = url.partition(":")[0].lower()
        match scheme:
            case "base64":
                return self._decode(url[len("base64://") :])
            case "data":
                return self._data(url)
            case "http" | "https":
                return await self._http(url, reach or self._reach, key, _GET)
        came = f"begins with {scheme[:16]}:" if scheme else "has no scheme"
        raise NotFetched(f"the URL {came}; expected http, https, data or base64")

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        reach: FetchPolicy | None = None,
        key: Hashable = None,
    ) -> bytes:
        """Post a body to an ``http(s)`` URL, and return the body of the answer. A redirect is
        refused, because the body was written for this server. Raises `NotFetched`."""
        request = _HttpRequest(method="POST", body=body, headers=headers)
        return await self._http(url, reach or self._reach, key, request)

    def _data(self, url: str) -> bytes:
        head, comma, body = url.partition(",")
        if not comma:
            raise NotFetched("malformed data: URL")
        if head.lower().endswith(";base64"):
            return self._decode(body)
        self._check_size(len(body) // 3)  # A byte takes at most three characters (%20).
        return self._checked(unquote_to_bytes(body))

    def _decode(self, text: str) -> bytes:
        self._check_size(len(text) * 3 // 4 - 2)
        try:
            # Some senders break the base64 text into lines, or leave out the ``=`` at its end.
            compact = "".join(text.split())
            return self._checked(
                base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
            )
        except (binascii.Error, ValueError):
            raise NotFetched("malformed base64") from None

    async def _http(
        self, url: str, reach: FetchPolicy, key: Hashable, asked: _HttpRequest
    ) -> bytes:
        settings = self._settings
        try:
            with anyio.fail_after(settings.fetch_s):
                async with self._chats.of(key):
                    for _ in range(settings.max_redirects + 1):
                        answer = await self._get(httpx.URL(url), reach, key, asked)
                        if isinstance(answer, bytes):
                            return answer
                        if asked is not _GET:
                            raise NotFetched("the server redirects, which is not followed")
                        url = answer
                    raise NotFetched(f"more than {settings.max_redirects} redirects")
        except TimeoutError:
            raise NotFetched(f"not there within {settings.fetch_s:g} s") from None
        except httpx.TimeoutException:
            raise NotFetched(f"the server said nothing for {settings.silent_s:g} s") from None
        # `ValueError` is listed, because the package idna raises it for names such as "xn--", and
        # httpx does not convert it.
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ssl.SSLError, ValueError) as error:
            words = str(error) or type(error).__name__
            raise NotFetched(f"cannot be fetched: {words}") from None

    async def _get(
        self, url: httpx.URL, reach: FetchPolicy, key: Hashable, asked: _HttpRequest
    ) -> bytes | str:
        """Make one request. Returns the body of the answer, or the URL of a redirect."""
        if url.scheme not in {"http", "https"} or not url.host:
            raise NotFetched("redirected to something that is not http")
        host = url.raw_host.decode("ascii").lower()
        proxy = environment_proxy(str(url))
        async with self._hosts.of(host), self._all:
            try:
                address = await self._address(url, host, reach, key)
            except (NoAddress, OSError):
                if not proxy or await self._resolves_names(key):
                    raise
                address = host  # This machine has no name server, so the proxy resolves the name.
            if proxy and not _is_private(address):
                name = url.raw_host.decode()
                async with proxied_client(proxy, name, self._settings.silent_s) as client:
                    return await self._from(client, address, url, reach, asked)
            return await self._from(self._open_client(), address, url, reach, asked)

    async def _from(
        self,
        client: httpx.AsyncClient,
        address: str,
        url: httpx.URL,
        reach: FetchPolicy,
        asked: _HttpRequest,
    ) -> bytes | str:
        request = client.build_request(
            asked.method,
            url.copy_with(host=address, username=None, password=None),
            content=asked.body,
            headers={
                **asked.headers,
                "Host": url.netloc.decode(),
                # Ask for an uncompressed body: a small compressed body could be large in memory.
                "Accept-Encoding": "identity",
            },
            extensions={"sni_hostname": url.raw_host.decode()},
        )
        response = await client.send(request, stream=True)
        try:
            if response.status_code in _REDIRECTS and "location" in response.headers:
                return str(url.join(response.headers["location"]))
            if not response.is_success:
                raise NotFetched(f"the server answered {response.status_code}")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise NotFetched("the server used a compression that was not requested")
            self._check_size(int(response.headers.get("content-length") or 0))
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                self._check_size(len(body))
                reach.count_bytes(len(chunk))
            return bytes(body)
        finally:
            await response.aclose()

    async def _address(self, url: httpx.URL, host: str, reach: FetchPolicy, key: Hashable) -> str:
        port = url.port or (443 if url.scheme == "https" else 80)
        reach.check_host(host, port)
        with anyio.move_on_after(self._settings.silent_s):
            found = await self._lookups.addresses(host, port, key)
            addresses = [ipaddress.ip_address(address) for address in found]
            reach.check_addresses(host, port, addresses)
            return str(addresses[0])
        raise NoAddress(f"{host}: no address was found within {self._settings.silent_s:g} s")

    async def _resolves_names(self, key: Hashable) -> bool:
        """Return True if this machine resolves a name that always exists."""
        with anyio.move_on_after(self._settings.silent_s), suppress(OSError):
            return bool(await self._lookups.addresses(_SURE_NAME, 443, key))
        return False

    def _open_client(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                trust_env=False,  # `environment_proxy` chooses the proxy of each request
                timeout=self._settings.silent_s,
                # Do not reuse connections, because each was checked and encrypted for one host
                # name. Their number is not limited here: `KeyedLimiter` and `CapacityLimiter` limit
                # it.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            )
        return self._client

    def _check_size(self, size: int) -> None:
        if size > self._settings.max_bytes:
            raise NotFetched(f"larger than {self._settings.max_bytes // 1024 // 1024} MiB")

    def _checked(self, data: bytes) -> bytes:
        self._check_size(len(data))
        return data


def _is_private(address: str) -> bool:
    """Return True if an address is inside the operator's network. Returns False for a name."""
    try:
        return not is_public(ipaddress.ip_address(address))
    except ValueError:
        return False
