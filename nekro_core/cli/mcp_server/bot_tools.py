"""Lists and calls the running bot's tools over its HTTP API (docs/http-api.md)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx

from nekro_core.app.instance import InstanceInfo, find_running_instance
from nekro_core.system.errors import NekroError

_LIST_S = 30.0
_CONNECT_S = 10.0

Json = dict[str, Any]


class BotUnavailable(NekroError):
    """The bot did not answer or refused. The text says why."""


class BotTools:
    """Lists and calls the bot's tools. If the bot was restarted at another address, the new address
    is used."""

    def __init__(
        self, data_dir: Path, place: InstanceInfo, client: httpx.AsyncClient, chat: str
    ) -> None:
        self._data_dir = data_dir
        self._place = place
        self._client = client
        self._chat = {"chat": chat} if chat else {}

    @classmethod
    @asynccontextmanager
    async def at(cls, data_dir: Path, place: InstanceInfo, *, chat: str) -> AsyncIterator[Self]:
        """Connect to the bot at ``place``. ``chat`` is the key of the chat whose tools are used. If
        it is empty, only tools that need no chat are used."""
        timeout = httpx.Timeout(None, connect=_CONNECT_S)  # the bot limits the time of tools
        async with httpx.AsyncClient(timeout=timeout, trust_env=False) as client:
            yield cls(data_dir, place, client, chat)

    async def list(self) -> list[Json]:
        """List every tool: ``name``, ``description``, ``inputSchema``. Raises `BotUnavailable`."""
        answer = await self._ask("GET", "tools", timeout=_LIST_S)
        tools: list[Json] = answer["tools"]
        return tools

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Json:
        """Call a tool and return a dict with ``content`` and ``isError``. Cancelling this method
        ends the call. Raises `BotUnavailable` if the bot refuses or its answer is lost."""
        return await self._ask("POST", f"tools/{quote(name, safe='')}", json=dict(arguments))

    async def _ask(self, method: str, path: str, **more: Any) -> Json:
        try:
            try:
                response = await self._send(method, path, **more)
            except httpx.ConnectError:
                # The connection failed, so the request was not sent and can be repeated. The bot
                # may have been restarted at another address.
                if not self._find_again():
                    raise
                response = await self._send(method, path, **more)
        except httpx.HTTPError as error:
            raise BotUnavailable(
                f"the bot does not answer: {str(error) or type(error).__name__}"
            ) from None
        if response.is_error:
            raise BotUnavailable(_reason(response))
        answer: Json = response.json()
        return answer

    async def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        return await self._client.request(
            method,
            f"{self._place.address}/api/v1/{path}",
            params=self._chat,
            headers={"Authorization": f"Bearer {self._place.token}"},
            **more,
        )

    def _find_again(self) -> bool:
        place = find_running_instance(self._data_dir)
        if place is None or place == self._place:
            return False
        self._place = place
        return True


def _reason(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the bot answered with HTTP status {response.status_code}"
