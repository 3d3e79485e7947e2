"""Sends requests to a supervisor that do not belong to a run, and waits for their answers. Each
request has a number and gets one answer. Many may be open at the same time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
import msgspec

from nekro_core.sandbox.box import BoxFileError, BoxLost
from nekro_core.sandbox.guest import guest_wire as wire
from nekro_core.sandbox.link.channel import FrameSender

_Answer = TypeVar("_Answer")

_PIECE = 256 * 1024
_CODES = frozenset(
    {"not_found", "is_a_directory", "permission_denied", "too_large", "invalid_input", "limit"}
)
KILLED = "killed"
"""The supervisor's error code for work whose process was killed by another process in the box."""
_MESSAGE_LIMIT = 1000


class _Failure(msgspec.Struct):
    code: str = ""
    message: str = ""


class _FileReply(msgspec.Struct):
    value: msgspec.Raw = msgspec.Raw(b"null")


def encoded(wanted: dict[str, object]) -> bytes:
    """Encode a request. Raises `BoxFileError` for a text that is not valid Unicode (it has half a
    surrogate pair)."""
    try:
        return msgspec.json.encode(wanted)
    except UnicodeEncodeError as error:
        raise BoxFileError("invalid_input", f"a lone surrogate in {error.object[:80]!a}") from error


@dataclass(slots=True)
class BoxRequest:
    """An open request. After ``done``, ``text`` and ``body`` are its answer."""

    number: int
    limit: int
    done: anyio.Event = field(default_factory=anyio.Event)
    text: bytes = b""
    body: bytes = b""
    answered: bool = False
    pieces: list[bytes] = field(default_factory=list)
    received: int = 0

    def answer(self, kind: type[_Answer]) -> _Answer:
        """Decode the answer. Raises `BoxFileError` if the answer is an error, and
        `msgspec.DecodeError` if it cannot be decoded."""
        failure = msgspec.json.decode(self.text, type=_Failure)
        if failure.code:
            code = failure.code if failure.code in _CODES else "limit"
            message = failure.message[:_MESSAGE_LIMIT]
            raise RequestKilled(message) if failure.code == KILLED else BoxFileError(code, message)
        return msgspec.json.decode(self.text, type=kind)


class RequestKilled(BoxFileError):
    """The process in the box that did this work was killed."""

    def __init__(self, message: str) -> None:
        super().__init__("limit", message)


class BoxRequests:
    """The open requests of one box."""

    def __init__(self, sender: FrameSender, lose: Callable[[str], None]) -> None:
        self._sender = sender
        self._lose = lose
        self._open: dict[int, BoxRequest] = {}
        self._count = 0
        self._lost = ""

    def next_number(self) -> int:
        """Return a number that was never used in this box."""
        self._count += 1
        return self._count

    async def file(
        self,
        wanted: dict[str, object],
        data: bytes | None = None,
        *,
        limit: int = 0,
        timeout_s: float,
    ) -> tuple[Any, bytes]:
        """Have the supervisor do a file operation. Returns the value in the answer, and the bytes
        that were read.

        ``data`` are the bytes to write, if the operation writes. ``limit`` is the largest number of
        bytes that the supervisor may send; if it sends more, the box is lost. Raises `BoxFileError`
        and `BoxLost`.
        """
        text = encoded(wanted)
        request = self.begin(limit)
        try:
            self._sender.send(wire.FILE, request.number, text)
            if data is not None:
                for start in range(0, len(data), _PIECE):
                    piece = data[start : start + _PIECE]
                    self._sender.send(wire.CHUNK, request.number, b"", piece)
                self._sender.send(wire.CHUNK, request.number)
            await self.wait(request, timeout_s)
            value = msgspec.json.decode(self.read(request, _FileReply).value)
        finally:
            self.end(request)
        return value, b"".join(request.pieces)

    def begin(self, limit: int = 0, number: int = 0) -> BoxRequest:
        """Open a request, which the caller then sends. It gets a new number if ``number`` is 0. For
        ``limit`` see `file`. The caller must call `end`. Raises `BoxLost`."""
        if self._lost:
            raise BoxLost(f"the box is gone: {self._lost}")
        request = BoxRequest(number or self.next_number(), limit)
        self._open[request.number] = request
        return request

    def send_work(self, request: BoxRequest, wanted: dict[str, object], body: bytes = b"") -> None:
        """Send a request for work that the box's executor does."""
        self._sender.send(wire.WORK, request.number, encoded(wanted), body)

    async def wait(self, request: BoxRequest, timeout_s: float) -> None:
        """Wait for the answer. If no answer arrives in time, the box is lost. Raises `BoxLost`."""
        with anyio.move_on_after(timeout_s):
            await request.done.wait()
        if not request.answered:
            self._lose(f"it did not answer within {timeout_s:g} s")
            raise BoxLost(f"the box is gone: {self._lost}")

    def read(self, request: BoxRequest, kind: type[_Answer]) -> _Answer:
        """Decode a request's answer. Raises `BoxFileError`. If the answer cannot be decoded, the
        box is lost and `BoxLost` is raised."""
        try:
            return request.answer(kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.broken() from error

    def broken(self) -> BoxLost:
        """Lose the box because of an invalid answer. Returns the error, which the caller raises."""
        self._lose("its supervisor sent an answer that cannot be read")
        return BoxLost(f"the box is gone: {self._lost}")

    def end(self, request: BoxRequest) -> None:
        """Close the request. If there is no answer yet, the supervisor stops the work for this
        request."""
        del self._open[request.number]
        if not request.answered and not self._lost:
            self._sender.send(wire.STOP, request.number)

    def handle(self, kind: int, number: int, text: bytes, body: bytes) -> None:
        """Handle a frame from the supervisor. Raises `ValueError` if it has more bytes of a file
        than the request allows."""
        request = self._open.get(number)
        if request is None or request.answered:
            return
        if kind == wire.CHUNK:
            request.received += len(body)
            if request.received > request.limit:
                raise ValueError("more of a file than requested")
            request.pieces.append(body)
        else:
            request.text, request.body, request.answered = text, body, True
            request.done.set()

    def close(self, reason: str) -> None:
        """Wake all callers that wait, after the end of the box. They raise `BoxLost`."""
        self._lost = reason
        for request in self._open.values():
            request.done.set()
