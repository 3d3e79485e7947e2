"""Sends the events of a room, which is one chat of the page, to a client as server-sent events.

Standard: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

import json
from collections import OrderedDict
from typing import Any

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from nekro_core.api.adapter import Host, OperatorHost, Recorded, Working
from nekro_core.api.chat import ChatKey, Record

from .views import record_view

HEARTBEAT_S = 15.0
"""Seconds between two comments, which keep proxies from closing the connection of a quiet room."""
PAGE_SIZE = 200
"""Maximum number of older records that a stream reads from the store at once."""
REMEMBERED = 1000
"""For at most this many records, the stream remembers the state in which it sent them. A record
whose state has not changed is not sent again."""
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # otherwise nginx buffers the events
]


class EventStream(Response):
    """The stream of one room for one client.

    ``after`` is the last ``seq`` that the client has. If it is None, the stream begins with the
    next record. The stream ends when the client disconnects, when ``closing`` is set, or when the
    client is too slow. If the client connects again with ``Last-Event-ID``, it misses no record.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        host: Host,
        operator: OperatorHost,
        key: ChatKey,
        *,
        after: int | None,
        closing: anyio.Event,
    ) -> None:
        super().__init__()
        self._host = host
        self._operator = operator
        self._key = key
        self._after = after
        self._closing = closing
        self._last = 0
        self._start = 0
        self._sent: OrderedDict[int, tuple[object, ...]] = OrderedDict()

    async def __call__(
        self,
        scope: Scope,  # noqa: ARG002 - ASGI's signature
        receive: Receive,
        send: Send,
    ) -> None:
        """Send events until the stream ends."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        disconnected = False
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._until_disconnected, receive, tasks.cancel_scope)
                tasks.start_soon(self._until_closing, tasks.cancel_scope)
                tasks.start_soon(self._beat, send)
                await self._follow(send)
                tasks.cancel_scope.cancel()
        except* OSError:
            disconnected = True  # the client disconnected during a write
        if not disconnected:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _follow(self, send: Send) -> None:
        # The watch begins before the store is read. So no record is missed: a record that arrives
        # during the read is received twice, and sent once.
        async with self._operator.activity.watch(self._key) as activities:
            await self._catch_up(send)
            await _write(
                send, _event("working", {"busy": self._operator.sessions.working(self._key)})
            )
            async for activity in activities:
                match activity:
                    case Recorded(record):
                        await self._show(send, record)
                    case Working(_, busy):
                        await _write(send, _event("working", {"busy": busy}))

    async def _catch_up(self, send: Send) -> None:
        if self._after is None:
            newest = await self._host.records(self._key, limit=1)
            self._start = self._last = newest[-1].seq if newest else 0
            return
        self._start = self._last = self._after
        while True:
            page = await self._host.records(self._key, after=self._last, limit=PAGE_SIZE)
            for record in page:
                await self._show(send, record)
            if len(page) < PAGE_SIZE:
                return

    async def _show(self, send: Send, record: Record) -> None:
        state = (record.state, record.recalled, record.message_id, record.segments)
        earlier = self._sent.get(record.seq)
        if earlier == state:
            return
        self._sent[record.seq] = state
        while len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)
        changed = earlier is not None or record.seq <= self._start
        # Only a record that is newer than all records sent so far gets an id. So ``Last-Event-ID``
        # always names the newest record, even if an older one was sent again because it changed.
        event_id = record.seq if record.seq > self._last else None
        self._last = max(self._last, record.seq)
        name = "changed" if changed else "message"
        await _write(send, _event(name, record_view(record), event_id))

    async def _beat(self, send: Send) -> None:
        while True:
            await _write(send, b": still here\n\n")
            await anyio.sleep(HEARTBEAT_S)

    async def _until_closing(self, scope: anyio.CancelScope) -> None:
        await self._closing.wait()
        scope.cancel()

    @staticmethod
    async def _until_disconnected(receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()


async def _write(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


def _event(name: str, data: dict[str, Any], event_id: int | None = None) -> bytes:
    # The JSON has no line breaks, so a message cannot begin another field of the event.
    head = f"id: {event_id}\n" if event_id is not None else ""
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n".encode()
