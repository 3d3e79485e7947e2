"""From a request on the wire to what a webhook's handler is given."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from anyio import to_thread

from nekro_core.plugins.authoring.web import WebhookRequest
from nekro_core.system.asgi import Receive, Scope
from nekro_core.system.errors import NekroError

_IN_A_THREAD = 256 * 1024
"""Bytes of JSON or of a form beyond which reading it would hold every chat up."""


class UnreadableRequest(NekroError):
    """A request cannot be made a value of; ``status`` is HTTP's word for why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def read_request(endpoint: str, scope: Scope, receive: Receive) -> WebhookRequest:
    """The whole request, with its body read. Raises `UnreadableRequest`."""
    from starlette.datastructures import Headers  # noqa: PLC0415 - there is a server here

    headers = Headers(scope=scope)  # names in any case: senders and plugins write them as they like
    raw = await _body(receive)
    client = scope.get("client")
    return WebhookRequest(
        endpoint=endpoint,
        headers=headers,
        query=_pairs(scope.get("query_string", b"")),
        body=await _content(headers.get("content-type", ""), raw),
        raw=raw,
        client=client[0] if client else "",
    )


async def _body(receive: Receive) -> bytes:
    from starlette.exceptions import HTTPException  # noqa: PLC0415 - there is a server here

    parts = []
    while True:
        try:
            message = await receive()
        except HTTPException as error:  # it is larger than it may be
            raise UnreadableRequest(error.status_code, error.detail) from None
        if message["type"] == "http.disconnect":
            raise UnreadableRequest(400, "the sender went away")
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _content(content_type: str, raw: bytes) -> Any:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return await to_thread.run_sync(_pairs, raw) if len(raw) > _IN_A_THREAD else _pairs(raw)
    if kind == "application/json" or kind.endswith("+json"):
        try:
            if len(raw) > _IN_A_THREAD:
                return await to_thread.run_sync(json.loads, raw)
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise UnreadableRequest(400, f"the body is no JSON: {error}") from None
    return raw.decode("utf-8", "replace")


def _pairs(raw: bytes) -> Mapping[str, str]:
    return dict(parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True))
