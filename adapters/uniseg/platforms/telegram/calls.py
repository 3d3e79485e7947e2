"""Makes calls to the Bot API.

Only NoneBot's plugins make calls through NoneBot's adapter. That adapter opens a new connection for
each call, has no time limit, and does not distinguish a refusal from a network error.

A call raises `BotApiRefused` if the platform clearly refuses it, else `httpx.HTTPError`. After a
``ConnectError`` or another failure to connect, the call was surely not made. After any other
`httpx.HTTPError`, it may have been carried out.
"""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import httpx
from nonebot.adapters.telegram.exception import ActionFailed

CONNECT_S = 10.0
SILENT_S = 5.0
"""Maximum seconds between two pieces of a file that is downloaded."""
POOL = 64
"""Maximum number of connections at once. Long polling always uses one of them."""
FILES = 32
"""Maximum number of file downloads at once. Messages use the other connections, so they can be sent
even if the file server does not answer."""

Json = dict[str, Any]
Upload = tuple[str, bytes, str]
"""A file to upload: its name, bytes and MIME type."""


class BotApiRefused(ActionFailed):
    """The Bot API refused a call. For ``retry_after`` seconds, it accepts no more calls.
    ``moved_to`` is the chat's new id if a group became a supergroup."""

    def __init__(self, method: str, status: int, answer: Mapping[str, Any]) -> None:
        words = str(answer.get("description") or f"HTTP status {status}")
        super().__init__(f"{words} ({method})")
        self.words = words
        self.status_code = status
        hints = answer.get("parameters")
        parameters: Mapping[str, Any] = hints if isinstance(hints, Mapping) else {}
        self.retry_after = float(parameters.get("retry_after") or 0)
        self.moved_to = parameters.get("migrate_to_chat_id")

    def __str__(self) -> str:
        return self.words


class FileNotFetched(Exception):
    """A file could not be downloaded. The text is the reason."""


class BotApi:
    """A client of the Bot API for one bot. ``server`` is the server's address with a slash at the
    end."""

    def __init__(self, server: str, token: str, proxy: str | None = None) -> None:
        self._server, self._token = server, token
        self._files = anyio.CapacityLimiter(FILES)
        self._client = httpx.AsyncClient(
            proxy=proxy,
            timeout=httpx.Timeout(None, connect=CONNECT_S, pool=CONNECT_S),
            limits=httpx.Limits(max_connections=POOL, max_keepalive_connections=POOL),
        )

    async def call(
        self, method: str, params: Json, files: Mapping[str, Upload] | None = None
    ) -> Any:
        """Make a call and return its ``result``. There is no time limit; the caller sets one."""
        url = f"{self._server}bot{self._token}/{method}"
        if files:
            fields = {
                name: value if isinstance(value, str) else json.dumps(value)
                for name, value in params.items()
            }
            answer = await self._client.post(url, data=fields, files=dict(files))
        else:
            answer = await self._client.post(url, json=params)
        return _result_of(method, answer)

    async def fetch(self, file_id: str, most: int) -> bytes:
        """Download a file. Raises `FileNotFetched`.

        The file's address contains the bot's token. So the address is used only here, and no error
        contains it.
        """
        try:
            async with self._files:
                file = await self.call("getFile", {"file_id": file_id})
                url = f"{self._server}file/bot{self._token}/{file['file_path']}"
                return await self._downloaded(url, most)
        except BotApiRefused as error:
            raise FileNotFetched(str(error)) from None
        except httpx.HTTPError as error:
            raise FileNotFetched(f"{type(error).__name__} while fetching the file") from None

    async def _downloaded(self, url: str, most: int) -> bytes:
        waits = httpx.Timeout(SILENT_S, connect=CONNECT_S, pool=CONNECT_S)
        async with self._client.stream("GET", url, timeout=waits) as answer:
            if not answer.is_success:
                raise FileNotFetched(f"the file server answered {answer.status_code}")
            data = bytearray()
            async for piece in answer.aiter_bytes():
                data += piece
                if len(data) > most:
                    raise FileNotFetched(f"larger than {most} bytes")
        return bytes(data)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()


def _result_of(method: str, answer: httpx.Response) -> Any:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {}
    if answer.is_success and body.get("ok"):
        return body.get("result")
    raise BotApiRefused(method, int(body.get("error_code") or answer.status_code), body)
