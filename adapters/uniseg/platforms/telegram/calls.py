"""Makes calls to the Bot API, and tells what became of them.

NoneBot's adapter makes a new connection for each call, waits for ever and does not tell a refusal
from an accident; its plugins go on using it, we do not.

A call fails with `BotApiRefused`, the platform's clear no, or with `httpx.HTTPError`, of which
``ConnectError`` and its like surely never left and every other may have been carried out.
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
"""Connections at once; a long poll keeps one."""
FILES = 32
"""Of them for files: a file server that says nothing must leave room for words."""

Json = dict[str, Any]
Upload = tuple[str, bytes, str]
"""Name, bytes, type."""


class BotApiRefused(ActionFailed):
    """The Bot API said no. ``retry_after`` is the seconds it wants to be left alone for,
    ``moved_to`` the chat's new id where a group became a supergroup."""

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
    """A file could not be had. Says why."""


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
        """The ``result`` of a call. The caller bounds its time."""
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
        """A file that somebody sent. Raises `FileNotFetched`: its address has the token in it, so
        it is fetched here and shown to nobody."""
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
