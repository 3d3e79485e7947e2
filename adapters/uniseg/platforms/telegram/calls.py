"""Makes calls to the Bot API.

NoneBot's adapter is used only by NoneBot's plugins. It opens a new connection for each call, has no
time limit, and does not distinguish a refusal from a network error.

A call fails with `BotApiRefused` if the platform clearly refuses, else with `httpx.HTTPError`.
After a ``ConnectError`` or another failure to connect, the call was surely not made. After any
other error it may have been carried out.
"""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import httpx
from nonebot.adapters.telegram.exception import ActionFailed

CONNECT_S = 10.0
SILENT_S = 5.0
"""Longest wait for the next byte of a file."""
POOL = 64
"""Most connections at once. The long poll always uses one."""
FILES = 32
"""Most file downloads at once, so that a file server that does not answer cannot block messages."""

Json = dict[str, Any]
Upload = tuple[str, bytes, str]
"""Name, bytes, type."""


class BotApiRefused(ActionFailed):
    """The Bot API refused a call. ``retry_after`` is the seconds for which it accepts no calls;
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
    """The Bot API of one bot. ``server`` ends with a slash, as the adapter's ``api_server``."""

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
        """Make a call and return its ``result``. The caller limits its time."""
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
        """Download a file. Its address contains the bot's token, so it is used only here and
        appears in no error. Raises `FileNotFetched`."""
        try:
            async with self._files:
                file = await self.call("getFile", {"file_id": file_id})
                url = f"{self._server}file/bot{self._token}/{file['file_path']}"
                return await self._downloaded(url, most)
        except BotApiRefused as error:
            raise FileNotFetched(str(error)) from None
        except httpx.HTTPError as error:
            raise FileNotFetched(f"{type(error).__name__} while fetching it") from None

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
        """Close every connection."""
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
