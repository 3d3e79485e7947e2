"""Implements calls between processes on NATS.

A call is a NATS request. Its headers have the call's id and time limit. If the caller stops waiting
for the answer, it sends the id to a second subject, and the process that handles the call cancels
it.

NATS does not tell a caller that the process which got its call was killed. So the caller asks on
the second subject from time to time whether the call is still being handled. A process that was
started again since then does not know the call. A process that is suspended does not answer, and
then the caller waits on, because such a process may still handle the call.
"""

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

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
    AnswerTooLarge,
    CallError,
    CallFailed,
    CallTimedOut,
    CallTooLarge,
    ClusterUnavailable,
    NobodyServes,
    ServerBusy,
)
from nekro_core.cluster.nats_connection import NatsConnection
from nekro_core.cluster.subjects import (
    CALL_SUBJECT,
    CANCEL_SUBJECT,
    GATEWAY_CALL_SUBJECT,
    GATEWAY_CANCEL_SUBJECT,
    WORKER_CALL_SUBJECT,
    WORKER_CANCEL_SUBJECT,
    subject_of,
)
from nekro_core.system.background_tasks import background_tasks
from nekro_core.system.errors import NekroError

_ID = "Nekro-Call"
_WITHIN = "Nekro-Within"
_STATUS = "Status"
_ERROR = "Nekro-Error"
_ASK = "Nekro-Ask"
"""A header of messages on the subject of cancellations. The message does not cancel the call, but
asks whether it is being handled."""
_HANDLED, _UNKNOWN = b"handled", b"unknown"
_GROUP = "servers"
"""The queue group of the processes that serve a name. NATS gives each call to one member of the
group."""
_CANCEL_S = 1.0
"""Time limit in seconds for telling the server of a call that the caller was cancelled. The caller
waits for it, and the call has a time limit of its own."""
_ASK_S = 1.0
"""Seconds between two questions whether a call is still being handled, and the maximum number of
seconds to wait for the answers."""
_NO_RESPONDERS = "503"
_LOST = "the process of {} that handled the call has ended; the call may have been made"
_ERRORS: Mapping[str, type[CallError]] = {
    "busy": ServerBusy,
    "large": AnswerTooLarge,
    "failed": CallFailed,
    "late": CallTimedOut,
}


@dataclass(frozen=True, slots=True)
class CallSubjects:
    """The subjects of one kind of calls. `credentials.py` says which role may send to them.

    Attributes:
        call: The beginning of the subjects of calls.
        cancel: The beginning of the subjects on which callers cancel calls.
        inboxes: The beginnings of the subjects to which the answers go.
    """

    call: str
    cancel: str
    inboxes: tuple[str, ...]


_OTHER_ACCOUNT = "_R_."
"""NATS replaces the subject of the answer with one that begins so when a request comes from another
account. It refuses a request whose sender has written such a subject."""
TO_ACCOUNTS = CallSubjects(CALL_SUBJECT, CANCEL_SUBJECT, ("_INBOX_worker.", _OTHER_ACCOUNT))
"""Workers call the gateway of an account."""
TO_WORKERS = CallSubjects(
    WORKER_CALL_SUBJECT, WORKER_CANCEL_SUBJECT, ("_INBOX_gateway.", _OTHER_ACCOUNT)
)
"""Gateways call a worker by its name."""
TO_GATEWAYS = CallSubjects(GATEWAY_CALL_SUBJECT, GATEWAY_CANCEL_SUBJECT, ("_INBOX_gateway.",))
"""Gateways call a gateway by its name."""


class NatsCalls:
    """Implements `CallCarrier` on a connection to NATS."""

    def __init__(
        self,
        connection: NatsConnection,
        subjects: CallSubjects = TO_ACCOUNTS,
        *,
        at_once: int = CALLS_AT_ONCE,
    ) -> None:
        self._connection = connection
        self._subjects = subjects
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
            server = _Server(
                name, handler, tasks, self._connection, self._at_once, self._subjects.inboxes
            )
            self._names.add(name)
            calls = await client.subscribe(
                f"{self._subjects.call}.{subject}", queue=_GROUP, cb=server.take_call
            )
            cancels = await client.subscribe(
                f"{self._subjects.cancel}.{subject}", cb=server.cancel_call
            )
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
        message: Msg | None = None
        error: CallError | ClusterUnavailable | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, subject, call_id, tasks.cancel_scope)
                try:
                    message = await self._connection.client.request(
                        f"{self._subjects.call}.{subject}",
                        request,
                        timeout=within_s,
                        headers={_ID: call_id, _WITHIN: f"{within_s:g}"},
                    )
                    answered = True
                except nats.errors.NoRespondersError:
                    answered = True
                    error = NobodyServes(f"nobody serves {name} now")
                except nats.errors.TimeoutError:
                    error = CallTimedOut(f"{name} did not answer within {within_s:g} s")
                except (nats.errors.Error, OSError) as failure:
                    error = ClusterUnavailable(f"the call of {name} cannot be sent: {failure}")
                tasks.cancel_scope.cancel()
        finally:
            if not answered:
                await self._cancel(subject, call_id)
        if error is not None:
            raise error
        if message is None:
            raise CallTimedOut(_LOST.format(name))
        kind = (message.headers or {}).get(_ERROR)
        if kind is None:
            return message.data
        raise _ERRORS.get(kind, CallFailed)(message.data.decode(errors="replace"))

    async def _watch(self, subject: str, call_id: str, call: anyio.CancelScope) -> None:
        """Cancel the scope of a call when the process that handled it has ended."""
        unknown = 0
        while True:
            await anyio.sleep(_ASK_S)
            try:
                answer = await self._ask(subject, call_id)
            except (nats.errors.Error, OSError):
                continue  # While the connection is down, nothing is known.
            unknown = unknown + 1 if answer == _UNKNOWN else 0
            # A process that was suspended may answer this question before it takes the call, which
            # waits in another queue. So one answer `_UNKNOWN` is not enough.
            if answer == _NO_RESPONDERS.encode() or unknown > 1:
                call.cancel()
                return

    async def _ask(self, subject: str, call_id: str) -> bytes:
        """Ask all processes that serve a name whether one of them handles a call. Returns
        `_HANDLED`, `_UNKNOWN` if only others answered, `_NO_RESPONDERS` if nobody serves the name,
        and empty bytes if nobody answered in time."""
        client = self._connection.client
        inbox = client.new_inbox()
        answers = await client.subscribe(inbox)
        found = b""
        try:
            await client.publish(
                f"{self._subjects.cancel}.{subject}",
                call_id.encode(),
                reply=inbox,
                headers={_ASK: "1"},
            )
            with anyio.move_on_after(_ASK_S):
                while found != _HANDLED:
                    message = await answers.next_msg(timeout=_ASK_S)
                    if (message.headers or {}).get(_STATUS) == _NO_RESPONDERS:
                        return _NO_RESPONDERS.encode()
                    found = message.data
        except nats.errors.TimeoutError:
            pass
        finally:
            with suppress(nats.errors.Error, OSError):
                await answers.unsubscribe()
        return found

    async def _cancel(self, subject: str, call_id: str) -> None:
        """Tell the processes that serve the name that the caller no longer waits for the answer."""
        with anyio.move_on_after(_CANCEL_S, shield=True):
            try:
                await self._connection.send(f"{self._subjects.cancel}.{subject}", call_id.encode())
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
        inboxes: tuple[str, ...],
    ) -> None:
        self._inboxes = inboxes
        self._name = name
        self._handler = handler
        self._tasks = tasks
        self._connection = connection
        self._at_once = at_once
        self._scopes: dict[str, anyio.CancelScope] = {}

    async def take_call(self, message: Msg) -> None:
        """Start a task that handles a call. NATS's client calls this method for each call that
        arrives. It does not wait for the task."""
        if not self._answers_inbox(message):
            return
        if len(self._scopes) >= self._at_once:
            await self._respond(
                message, f"{self._name} handles {self._at_once} calls already", "busy"
            )
            return
        headers = message.headers or {}
        call_id = headers.get(_ID) or uuid.uuid4().hex
        if call_id in self._scopes:
            await self._respond(message, "a call with this id is being handled already", "failed")
            return
        scope = self._scopes[call_id] = anyio.CancelScope()
        self._tasks.start_soon(self._handle, message, call_id, scope, _seconds(headers))

    async def cancel_call(self, message: Msg) -> None:
        """Cancel the call whose id the message contains, if this process handles that call. If the
        message has the header `_ASK`, only answer whether this process handles the call."""
        if message.reply and not self._answers_inbox(message):
            return
        scope = self._scopes.get(message.data.decode(errors="replace"))
        if _ASK in (message.headers or {}):
            await self._respond(message, _UNKNOWN if scope is None else _HANDLED, "")
        elif scope is not None:
            scope.cancel()

    def _answers_inbox(self, message: Msg) -> bool:
        """Return whether the answer to a call goes to an inbox of the processes that may call.

        A caller chooses the subject to which the answer is sent. It must not choose one to which
        only a gateway may send, such as the subject of a lease. And a process that may not send to
        our subjects can have NATS deliver a stored message to them. NATS gives such a message a
        reply subject of its own, so this method returns False for it.
        """
        if message.reply.startswith(self._inboxes):
            return True
        logger.warning(
            "NATS: a call of {} is refused: its answer would go outside of {}*",
            self._name,
            self._inboxes[0],
        )
        return False

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
            return _encoded(str(error)), "failed"
        except Exception:  # noqa: BLE001 (a fault in one call must not end the others)
            logger.exception("the handler of {} failed", self._name)
            return f"{self._name} failed; its log has the reason".encode(), "failed"
        if len(answer) > CALL_BYTES:
            return f"an answer of {len(answer)} bytes; at most {CALL_BYTES}".encode(), "large"
        return answer, ""

    async def _respond(self, message: Msg, answer: bytes | str, kind: str) -> None:
        """Send an answer. If the answer cannot be sent, the caller waits until its time limit."""
        data = _encoded(answer) if isinstance(answer, str) else answer
        headers = {_ERROR: kind} if kind else None
        try:
            await self._connection.client.publish(message.reply, data, headers=headers)
        except (nats.errors.Error, OSError) as error:
            logger.warning("NATS: an answer could not be sent: {}", error)


def _encoded(text: str) -> bytes:
    """Encode the text of an error, cut off at `CALL_BYTES`. Half a character (a lone surrogate) in
    the text must not end the process."""
    return text.encode(errors="replace")[:CALL_BYTES]


def _seconds(headers: Mapping[str, str]) -> float:
    """Return the time limit in seconds that the caller wrote into the headers. A missing, wrong or
    too long one becomes `LONGEST_CALL_S`."""
    try:
        seconds = float(headers.get(_WITHIN, ""))
    except ValueError:
        return LONGEST_CALL_S
    return seconds if 0 < seconds <= LONGEST_CALL_S else LONGEST_CALL_S
