"""Fetches data from the network. A cell holds the data, and fetches again when the address
changes."""

import json
from typing import Any, Final, Literal

import anyio.to_thread

from nekro_core.delivery.errors import NotFetched
from nekro_core.reactive.cells import AsyncCell
from nekro_core.reactive.errors import FetchFailed, ReactiveError, Unreadable
from nekro_core.reactive.inputs import InputSnapshot
from nekro_core.reactive.scope import current_scope
from nekro_core.reactive.values import Reactive

Mode = Literal["text", "json", "bytes"]
"""How to decode bytes. ``"text"`` is UTF-8."""
_MUCH_JSON: Final = 256 * 1024
"""Maximum number of bytes of JSON that are decoded in the event loop. Decoding this many takes 10
ms. More bytes are decoded in a thread."""


def fetch_data(url: Reactive[str | None], *, mode: Reactive[Mode] = "json") -> AsyncCell[Any]:
    """Fetch the body at an address. The cell is idle while there is no address.

    The operator's limits for media apply: bytes, seconds, redirects. If the model's code named the
    host, the network rules of the chat's boxes must allow it. Any other host must have a public
    address. The bot's own machine is never reached. The cell fails with `FetchFailed` if there is
    no answer or the server answers with an error, and with `Unreadable` if the body does not fit
    ``mode``.

    Args:
        url: An ``http`` or ``https`` address.
        mode: ``"json"``, ``"text"`` (UTF-8) or ``"bytes"``.

    Returns:
        A cell with the body: parsed JSON, str or bytes.
    """
    fetcher = current_scope().resources.fetcher

    async def fetch(given: InputSnapshot) -> Any:
        if fetcher is None:
            raise ReactiveError("this scope has no network: give scope() a context or a fetcher")
        where = given.values["url"]
        if not isinstance(where, str):
            raise ReactiveError(f"url: expected a text, got {type(where).__name__}")
        try:
            data = await fetcher.fetch(where)
        except NotFetched as error:
            raise FetchFailed(f"{where[:200]}: {error}") from None
        return await decode_body(data, given.values["mode"], where)

    return AsyncCell(fetch, {"url": url, "mode": mode}, name="fetch_data", needed=("url",))


async def decode_body(data: bytes, mode: str, where: str) -> Any:
    """Decode bytes as ``mode`` says. Raises `Unreadable`, whose text names the source ``where`` of
    the bytes; `ReactiveError` for an unknown mode."""
    try:
        match mode:
            case "text":
                return data.decode("utf-8-sig")
            case "json" if len(data) > _MUCH_JSON:
                return await anyio.to_thread.run_sync(json.loads, data)
            case "json":
                return json.loads(data)
            case "bytes":
                return data
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{where[:200]} is no {mode}: {error}") from None
    raise ReactiveError(f"mode {mode!r}: expected text, json or bytes")
