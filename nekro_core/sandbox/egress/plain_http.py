"""Forwards a request without encryption. The head of the request is parsed and written again, so
the server gets only a head that was checked."""

from collections.abc import Callable

import anyio
import h11
from anyio import CancelScope
from anyio.abc import ByteStream

from nekro_core.sandbox.egress.dial import DestinationUnreachable
from nekro_core.sandbox.egress.relay import GONE, READ_BYTES, IdleTimeout
from nekro_core.sandbox.hop_headers import end_to_end_headers

HEAD_BYTES = 32 * 1024


class HttpStream:
    """An h11 connection over a stream."""

    def __init__(self, role: type[h11.CLIENT] | type[h11.SERVER], stream: ByteStream) -> None:
        self.state = h11.Connection(role, max_incomplete_event_size=HEAD_BYTES)
        self.stream = stream

    async def next(self) -> h11.Event:
        """Return the next event. Raises `h11.RemoteProtocolError` at the end of the connection, and
        the errors of the stream."""
        while True:
            event = self.state.next_event()
            if event is h11.NEED_DATA:
                try:
                    received = await self.stream.receive(READ_BYTES)
                except anyio.EndOfStream:
                    received = b""
                self.state.receive_data(received)
            elif isinstance(event, h11.Event) and not isinstance(event, h11.ConnectionClosed):
                return event
            else:
                raise h11.RemoteProtocolError("the connection ended")

    async def send(self, event: h11.Event) -> None:
        """Send an event. Raises `h11.LocalProtocolError`, and the errors of the stream."""
        data = self.state.send(event)
        if data:
            await self.stream.send(data)


class PlainRequest:
    """One request from a box to an allowed server, and its answer. After the answer the connection
    is closed, so the next request needs a new connection and is checked too."""

    def __init__(
        self,
        request: h11.Request,
        target: str,
        host: str,
        *,
        idle_s: float,
        count: Callable[[int], None],
    ) -> None:
        """``target`` is the path and the query. ``host`` is the allowed host, which replaces the
        request's ``Host`` header. After ``idle_s`` seconds without a byte, the request fails.
        ``count`` is called with the size of each piece of the bodies."""
        kept = [pair for pair in end_to_end_headers(request.headers) if pair[0] != b"host"]
        chunked = any(name == b"transfer-encoding" for name, _ in request.headers)
        if chunked:
            kept = [pair for pair in kept if pair[0] != b"content-length"]
            kept.append((b"transfer-encoding", b"chunked"))
        self._request = h11.Request(
            method=request.method,
            target=target,
            headers=[(b"host", host.encode()), *kept, (b"connection", b"close")],
        )
        self._idle_s = idle_s
        self._count = count

    async def pass_on(self, inside: HttpStream, outside: ByteStream) -> None:
        """Forward the request and the answer.

        Raises the errors of ``count``, and `DestinationUnreachable` if the server sent no head of
        an answer. If the server's answer ends too early, the connection to the box is closed too,
        so that the box notices."""
        there = HttpStream(h11.CLIENT, outside)
        idle = IdleTimeout(self._idle_s)
        failures: list[Exception] = []
        began = False

        async def ask(everything: CancelScope) -> None:
            try:
                await there.send(self._request)
                await self._copy(inside, there, idle)
            except (h11.ProtocolError, *GONE):
                # The server does not read the rest of the request. It may still send an answer.
                pass
            except Exception as error:  # noqa: BLE001 (raised below, outside the task group)
                failures.append(error)
                everything.cancel()

        async def answer(everything: CancelScope) -> None:
            nonlocal began
            try:
                head = await there.next()
                while isinstance(head, h11.InformationalResponse):
                    if head.status_code == 100:
                        await inside.send(head)
                    head = await there.next()
                assert isinstance(head, h11.Response)
                began = True
                headers = [*end_to_end_headers(head.headers), (b"connection", b"close")]
                await inside.send(
                    h11.Response(status_code=head.status_code, headers=headers, reason=head.reason)
                )
                await self._copy(there, inside, idle)
            except (h11.ProtocolError, *GONE):
                pass
            except Exception as error:  # noqa: BLE001 (raised below, outside the task group)
                failures.append(error)
            everything.cancel()

        with idle.scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, tasks.cancel_scope)
                tasks.start_soon(answer, tasks.cancel_scope)
        for failure in failures:
            raise failure
        if not began:
            raise DestinationUnreachable("the server gave no answer that is HTTP")

    async def _copy(self, source: HttpStream, target: HttpStream, idle: IdleTimeout) -> None:
        while True:
            event = await source.next()
            idle.moved()
            if isinstance(event, h11.Data):
                self._count(len(event.data))
                await target.send(h11.Data(bytes(event.data)))
                idle.moved()
            else:
                await target.send(h11.EndOfMessage())
                return
