"""Implements calls between processes on NATS.

A call is a NATS request. Its headers have the call's id and time limit. If the caller stops waiting
for the answer, it sends the id to a second subject, and the process that handles the call cancels
it.
"""

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anyio
import nats.errors
from anyio.abc import TaskGroup
from loguru import logger
from nats.aio.msg import Msg

from nekro_core.cluster.calls import (
    CALL_BYTES,
    CALLS_AT_ONCE,
    LONGEST_CALL_S,
    CallHandler,
    check_call,
    check_call_name,
)
from nekro_core.cluster.errors import (
    CallError,
    CallFailed,
    CallTimedOut,
    CallTooLarge,
    ClusterUnavailable,
    NobodyServes,
    ServerBusy,
)
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.subjects import CALL_SUBJECT, CANCEL_SUBJECT, subject_of
from nekro_core.system.background_tasks import background_tasks
from nekro_core.system.errors import NekroError

_ID = "Nekro-Call"
_WITHIN = "Nekro-Within"
_ERROR = "Nekro-Error"
_GROUP = "servers"
"""The queue group of the processes that serve a name. NATS gives each call to one member of the
group."""
_CANCEL_S = 1.0
_ERRORS: Mapping[str, type[CallError]] = {
    "busy": ServerBusy,
    "large": CallTooLarge,
    "failed": CallFailed,
    "late": CallTimedOut,
}


class NatsCalls:
    """Implements `CallCarrier` on a connection to NATS."""

    def __init__(self, connection: NatsConnection, *, at_once: int = CALLS_AT_ONCE) -> None:
        self._connection = connection
        self._at_once = at_once
        self._names: set[str] = set()

    @asynccontextmanager
    async def serve(self, name: str, handler: CallHandler) -> AsyncIterator[None]:
        """See `CallCarrier.serve`."""
        check_call_name(name)
        if name in self._names:
            raise ValueError(f"{name} is served by this process already")
        client, subject = self._connection.client, subject_of(name)
        async with background_tasks() as tasks:
            server = _Server(name, handler, tasks, self._connection, self._at_once)
            self._names.add(name)
            calls = await client.subscribe(
                f"{CALL_SUBJECT}.{subject}", queue=_GROUP, cb=server.take_call
            )
            cancels = await client.subscribe(f"{CANCEL_SUBJECT}.{subject}", cb=server.cancel_call)
            # NATS must have both subscriptions before the block begins. The client writes the ping
            # of a flush before commands that still wait in its buffer, and empties the buffer while
            # it waits for the answer. So only the second answer proves that NATS has them.
            await client.flush()
            await client.flush()
            try:
                yield
            finally:
                self._names.discard(name)
                for subscription in (calls, cancels):
                    if not client.is_closed:
                        await subscription.unsubscribe()

    async def call(self, name: str, request: bytes, *, within_s: float) -> bytes:
        """See `CallCarrier.call`."""
        check_call(name, within_s)
        if len(request) > CALL_BYTES:
            raise CallTooLarge(f"a request of {len(request)} bytes; at most {CALL_BYTES} are sent")
        call_id, subject = uuid.uuid4().hex, subject_of(name)
        answered = False
        try:
            message = await self._connection.client.request(
                f"{CALL_SUBJECT}.{subject}",
                request,
                timeout=within_s,
                headers={_ID: call_id, _WITHIN: f"{within_s:g}"},
            )
            answered = True
        except nats.errors.NoRespondersError:
            answered = True
            raise NobodyServes(f"nobody serves {name} now") from None
        except nats.errors.TimeoutError:
            raise CallTimedOut(f"{name} did not answer within {within_s:g} s") from None
        except (nats.errors.Error, OSError) as error:
            raise ClusterUnavailable(f"the call of {name} cannot be sent: {error}") from error
        finally:
            if not answered:
                await self._cancel(subject, call_id)
        kind = (message.headers or {}).get(_ERROR)
        if kind is None:
            return message.data
        raise _ERRORS.get(kind, CallFailed)(message.data.decode(errors="replace"))

    async def _cancel(self, subject: str, call_id: str) -> None:
        """Tell the processes that serve the name that the caller no longer waits for the answer."""
        with anyio.move_on_after(_CANCEL_S, shield=True):
            try:
                await self._connection.send(f"{CANCEL_SUBJECT}.{subject}", call_id.encode())
            except ClusterUnavailable as error:
                logger.debug("a call was not cancelled at its server: {}", error)


class _Server:
    """Handles the calls to one name that this process serves."""

    def __init__(
        self,
        name: str,
        handler: CallHandler,
        tasks: TaskGroup,
        connection: NatsConnection,
        at_once: int,
    ) -> None:
        self._name = name
        self._handler = handler
        self._tasks = tasks
        self._connection = connection
        self._at_once = at_once
        self._scopes: dict[str, anyio.CancelScope] = {}

    async def take_call(self, message: Msg) -> None:
        """Start a task that handles a call. NATS's client calls this method for each call that
        arrives. It does not wait for the task."""
        if len(self._scopes) >= self._at_once:
            await self._respond(
                message, f"{self._name} handles {self._at_once} calls already", "busy"
            )
            return
        headers = message.headers or {}
        call_id = headers.get(_ID) or uuid.uuid4().hex
        scope = self._scopes[call_id] = anyio.CancelScope()
        self._tasks.start_soon(self._handle, message, call_id, scope, _seconds(headers))

    async def cancel_call(self, message: Msg) -> None:
        """Cancel the call whose id the message contains, if this process handles that call."""
        if scope := self._scopes.get(message.data.decode(errors="replace")):
            scope.cancel()

    async def _handle(
        self, message: Msg, call_id: str, scope: anyio.CancelScope, within_s: float
    ) -> None:
        scope.deadline = anyio.current_time() + within_s
        answer, kind = b"", "late"
        try:
            with scope:
                answer, kind = await self._answer(message.data)
        finally:
            del self._scopes[call_id]
        await self._respond(message, answer, kind)

    async def _answer(self, request: bytes) -> tuple[bytes, str]:
        try:
            answer = await self._handler(request)
        except NekroError as error:
            return str(error).encode()[:CALL_BYTES], "failed"
        except Exception:  # noqa: BLE001 (a fault in one call must not end the others)
            logger.exception("the handler of {} failed", self._name)
            return f"{self._name} failed; its log has the reason".encode(), "failed"
        if len(answer) > CALL_BYTES:
            return f"an answer of {len(answer)} bytes; at most {CALL_BYTES}".encode(), "large"
        return answer, ""

    async def _respond(self, message: Msg, answer: bytes | str, kind: str) -> None:
        """Send an answer. If the answer cannot be sent, the caller waits until its time limit."""
        data = answer.encode() if isinstance(answer, str) else answer
        headers = {_ERROR: kind} if kind else None
        try:
            await self._connection.client.publish(message.reply, data, headers=headers)
        except (nats.errors.Error, OSError) as error:
            logger.warning("NATS: an answer could not be sent: {}", error)


def _seconds(headers: Mapping[str, str]) -> float:
    """Return the time limit in seconds that the caller wrote into the headers. A missing, wrong or
    too long one becomes `LONGEST_CALL_S`."""
    try:
        seconds = float(headers.get(_WITHIN, ""))
    except ValueError:
        return LONGEST_CALL_S
    return seconds if 0 < seconds <= LONGEST_CALL_S else LONGEST_CALL_S
