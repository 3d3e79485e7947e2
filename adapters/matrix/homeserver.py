"""Makes the calls of the client-server API that this adapter needs, over HTTP.

A call that fails raises one of five errors, because a sender must know what happened::

    HomeserverError
    ├── HomeserverNotConnected     the request was not sent
    ├── LoggedOut                  the server no longer accepts the token; nothing was done
    ├── RateLimited                too many requests; nothing was done, try again later
    ├── HomeserverRefused          the server refused the request
    └── HomeserverOutcomeUnknown   no answer in time, the connection was lost, or the server failed
"""

import json
import ssl
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import quote

import anyio
import certifi
import httpx
from nonebot.adapters.matrix.config import BotInfo

Json = Mapping[str, Any]

CALL_S = 30.0
CONNECT_S = 10.0
ANSWER_BYTES = 64 * 1024 * 1024
"""Maximum number of bytes of an answer. The first sync of an account in 1,000 rooms has about 10
MB."""
MEDIUM_BYTES = 100 * 1024 * 1024
"""Maximum number of bytes of a downloaded medium. The bot's settings limit separately what is
stored."""


class HomeserverError(Exception):
    """A call has no result. The text is a reason that a person can read."""


class HomeserverNotConnected(HomeserverError):
    """The call was surely not sent."""


class LoggedOut(HomeserverError):
    """The server does not accept the access token, or no longer accepts it."""


class RateLimited(HomeserverError):
    """The server accepts no calls for the next ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the homeserver takes no more for {seconds:g} s")
        self.seconds = seconds


class HomeserverRefused(HomeserverError):
    """The server answered with an error. ``code`` is its ``errcode``."""

    def __init__(self, status: int, code: str, words: str) -> None:
        super().__init__(f"{words or 'refused without a reason'} ({code or status})")
        self.status = status
        self.code = code


class HomeserverOutcomeUnknown(HomeserverError):
    """The call may have been carried out or not."""


CONNECTIONS = 32
"""Maximum number of connections at once. Downloads of media use at most half of them, so that
messages do not wait for slow media of other servers."""


class Homeserver:
    """Makes the calls of one account. It is an async context manager. Each call reads the token in
    ``info``, so the next call uses a renewed token."""

    def __init__(self, info: BotInfo, *, proxy: str | None = None) -> None:
        self._info = info
        self._client = httpx.AsyncClient(
            base_url=f"{info.homeserver.rstrip('/')}/_matrix/",
            proxy=proxy,
            # Only the operator's settings choose a proxy, not the environment or .netrc.
            trust_env=False,
            verify=_trusted(info.homeserver),
            follow_redirects=False,
            limits=httpx.Limits(max_connections=CONNECTIONS),
        )
        self._downloads = anyio.CapacityLimiter(CONNECTIONS // 2)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True), anyio.move_on_after(1):
            await self._client.aclose()

    async def get(
        self, path: str, params: Mapping[str, Any] | None = None, *, seconds: float = CALL_S
    ) -> Any:
        """Make a GET call. See `call`."""
        return await self.call("GET", path, params=params, seconds=seconds)

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | bytes | None = None,
        mime: str = "application/json",
        seconds: float = CALL_S,
    ) -> Any:
        """Make a call below ``/_matrix/`` and return the JSON of its answer. Raises
        `HomeserverError`."""
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        request = self._request(method, path, params=params, content=content, mime=mime)
        data = await self._answer(request, seconds, ANSWER_BYTES)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise HomeserverOutcomeUnknown(f"the answer is no JSON: {data[:100]!r}") from None

    async def download(self, server: str, media_id: str, *, seconds: float = CALL_S) -> bytes:
        """Download ``mxc://server/media_id``. Raises `HomeserverError`.

        Uses the endpoint that needs a token (since Matrix 1.11). If the server does not have that
        endpoint, the older one is used. Today's servers have closed the older one, which
        nonebot-adapter-matrix 0.2.3 still calls.
        """
        try:
            with anyio.fail_after(seconds):
                async with self._downloads:
                    return await self._downloaded(server, media_id, seconds)
        except TimeoutError:
            raise HomeserverOutcomeUnknown(f"not downloaded within {seconds:g} s") from None

    async def _downloaded(self, server: str, media_id: str, seconds: float) -> bytes:
        where = f"{quote(server, safe='')}/{quote(media_id, safe='')}"
        paths = (f"client/v1/media/download/{where}", f"media/v3/download/{where}")
        for path in paths:
            try:
                request = self._request("GET", path)
                return await self._answer(request, seconds, MEDIUM_BYTES)
            except HomeserverRefused as refused:
                if path == paths[-1] or refused.code != "M_UNRECOGNIZED":
                    raise
        raise AssertionError("the last path raises or returns")

    def _request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        mime: str = "application/json",
    ) -> httpx.Request:
        return self._client.build_request(
            method,
            path,
            params={key: value for key, value in (params or {}).items() if value is not None},
            content=content,
            headers={
                "Authorization": f"Bearer {self._info.access_token}",
                **({"Content-Type": mime} if content is not None else {}),
            },
            # A cancel scope limits the whole call: httpx would restart its own time limit with each
            # piece of data that it reads or writes.
            timeout=httpx.Timeout(None, connect=CONNECT_S, pool=CONNECT_S),
        )

    async def _answer(self, request: httpx.Request, seconds: float, most: int) -> bytes:
        """Return the body of a successful answer. Raises `HomeserverError`."""
        sent = False
        try:
            with anyio.fail_after(seconds):
                response = await self._client.send(request, stream=True)
                sent = True
                try:
                    data = await _read(response, most)
                finally:
                    await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise HomeserverNotConnected(
                f"the homeserver cannot be reached: {_words(error)}"
            ) from None
        except TimeoutError:
            what = "ended" if sent else "came"
            raise HomeserverOutcomeUnknown(f"no answer {what} within {seconds:g} s") from None
        except (httpx.HTTPError, OSError) as error:
            raise HomeserverOutcomeUnknown(f"the connection was lost: {_words(error)}") from None
        if response.is_success:
            return data
        raise _failure(response.status_code, data)


def _trusted(address: str) -> ssl.SSLContext:
    """Return a TLS context that trusts the certificate authorities of certifi and of the machine
    (``SSL_CERT_FILE``). The operator may have added their homeserver's authority to the machine."""
    if not address.startswith("https://"):
        # Without TLS this context is not used. It is returned because it is made quickly.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.create_default_context(cafile=certifi.where())
    context.load_default_certs()
    return context


async def _read(response: httpx.Response, most: int) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > most:
            raise HomeserverRefused(response.status_code, "", f"an answer of over {most} bytes")
    return bytes(body)


def _failure(status: int, data: bytes) -> HomeserverError:
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        parsed = None
    answer: Json = parsed if isinstance(parsed, dict) else {}
    code, words = str(answer.get("errcode") or ""), str(answer.get("error") or "")[:300]
    if status == 429 or code == "M_LIMIT_EXCEEDED":
        after = answer.get("retry_after_ms")
        return RateLimited(min(after, 600_000) / 1000 if isinstance(after, int | float) else 5.0)
    if status == 401:
        return LoggedOut(words or "the homeserver does not take the access token")
    if status >= 500:
        return HomeserverOutcomeUnknown(f"the homeserver failed: {words or status}")
    return HomeserverRefused(status, code, words)


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
