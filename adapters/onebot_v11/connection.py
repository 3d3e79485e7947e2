"""Sends calls over the WebSocket of one account, and receives answers and events from it.

A call that fails raises one of three errors, because a sender must know what happened::

    ActionError
    ├── NotConnected     the call was not sent
    ├── CallRefused      the implementation refused the call
    └── OutcomeUnknown   no answer in time, the answer ``async``, or the connection was lost
"""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
from loguru import logger
from nonebot.exception import WebSocketClosed
from nonebot.utils import DataclassEncoder

from nekro_core.api.adapter import AccountMonitor

from .incoming import words

Json = dict[str, Any]

MISSED_HEARTBEATS = 3
"""If no frame arrives for this many heartbeat intervals, the connection counts as lost. NapCat
sends a heartbeat every 30 s. OneBot implementations skip a heartbeat while their QQ client is
busy."""
LONGEST_HEARTBEAT_MS = 3_600_000

KERNEL_TIMEOUT = "Timeout: NTEvent"
"""Beginning of NapCat's error text if QQ did not confirm a call in time. Such messages often arrive
(NapNeko/NapCatQQ#932, #1772), so the outcome counts as unknown, not as refused."""

HEARD = 2_000
"""Maximum number of message ids that a connection remembers. They are needed only while it fetches
histories, and fewer messages than this are expected in that time."""
LONGEST_ID = 100
"""Maximum number of characters of a message id that is remembered. A frame could contain an id of
16 MiB."""

UNKNOWN_ACTION = (1404, 10002)
"""Values of ``retcode`` for an unknown action. NapCat, LLBot and go-cqhttp send the first. OneBot
v12 defines the second, which some implementations send."""

_ENCODER = DataclassEncoder()
"""One encoder for all calls, because making an encoder costs more than encoding a call."""


class ActionError(Exception):
    """A call has no result. The text is a reason that a person can read."""


class NotConnected(ActionError):
    """The call was surely not sent."""


class CallRefused(ActionError):
    """The OneBot implementation answered ``failed``."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        words = answer.get("wording") or answer.get("message") or answer.get("msg")
        self.answer = dict(answer)
        super().__init__(f"{words or 'refused without a reason'} (code {answer.get('retcode')})")

    @property
    def unknown_action(self) -> bool:
        """True if the OneBot implementation has no such action."""
        return self.answer.get("retcode") in UNKNOWN_ACTION


class OutcomeUnknown(ActionError):
    """The call may have been carried out or not."""


class Wire(Protocol):
    """The methods of a forward or reverse WebSocket that `OneBotConnection` needs."""

    async def receive(self) -> str | bytes:
        """Return the next frame. Raises `WebSocketClosed` at the end."""

    async def send(self, data: str) -> None:
        """Write one frame."""

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the WebSocket with a code and a reason."""


@dataclass(eq=False, slots=True)
class _Waiting:
    scope: anyio.CancelScope
    answer: Json | None = None


@dataclass(eq=False)
class OneBotConnection:
    """One WebSocket connection of one account. ``source`` is its name in logs.

    ``account`` is empty until it is known: on a forward connection, the first event names it.
    """

    wire: Wire
    source: str
    account: str = ""
    reached_at: str = ""
    """The address at which the peer reached the bot's web server (``http://host:port``). Empty for
    a forward connection."""
    lost: str = ""
    """Why the connection ended; empty while it is alive."""
    refusal: str = ""
    """The text of the peer if it refused the connection after the handshake, as NapCat does for a
    wrong token. Otherwise empty."""
    monitor: AccountMonitor | None = None
    """The state of the account to which the connection belongs."""
    received_ids: set[str] = field(default_factory=set)
    """The ids of the first `HEARD` messages that arrived on this connection. If the history
    contains such a message too, the message was not missed."""
    _echoes: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _waiting: dict[str, _Waiting] = field(default_factory=dict)
    _reading: anyio.CancelScope | None = None
    _patience: float | None = None

    async def call(self, action: str, params: Mapping[str, Any], *, seconds: float) -> Any:
        """Call an action and return the ``data`` of its answer.

        ``seconds`` limits the whole call: writing the frame and waiting. Raises `ActionError`.
        """
        if self.lost:
            raise NotConnected(self.lost)
        echo = str(next(self._echoes))
        frame = _ENCODER.encode({"action": action, "params": params, "echo": echo})
        with anyio.move_on_after(seconds) as scope:
            pending = self._waiting[echo] = _Waiting(scope)
            try:
                await self._write(frame)
                await anyio.sleep_forever()
            finally:
                del self._waiting[echo]
        if pending.answer is None:
            raise self._unanswered(f"no answer to {action} within {seconds:g} s")
        return _data_of(pending.answer)

    async def next_event(self) -> Json | None:
        """Return the next event, or None when the connection has ended. If answers arrive first,
        their calls receive them. Frames that are not OneBot's are logged and skipped."""
        while not self.lost:
            with anyio.move_on_after(self._patience) as self._reading:
                try:
                    data = await self.wire.receive()
                except (WebSocketClosed, RuntimeError, OSError) as error:
                    self.lose(f"connection closed: {error!r}")
                    return None
            if self._reading.cancelled_caught:
                self.lose(f"silent for {self._patience} s although it announced heartbeats")
                return None
            frame = self._parse(data)
            if frame is None:
                continue
            if "post_type" in frame:
                self._notice_heartbeat(frame)
                self._note_message(frame)
                return frame
            self._take_answer(frame)
        return None

    def lose(self, reason: str) -> None:
        """Mark the connection as lost. Reading stops, and all calls that wait for an answer end.

        Otherwise each of these calls would wait for its whole time limit.
        """
        if self.lost:
            return
        self.lost = reason
        for pending in self._waiting.values():
            pending.scope.cancel()
        if self._reading is not None:
            self._reading.cancel()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Mark the connection as lost, and close the WebSocket. Takes at most 1 s. Raises
        nothing."""
        self.lose(reason or "closed by us")
        with anyio.move_on_after(1):
            try:
                await self.wire.close(code, reason)
            except Exception as error:  # noqa: BLE001 - a lost transport may raise anything
                logger.debug("closing {}: {!r}", self.source, error)

    def _unanswered(self, otherwise: str) -> OutcomeUnknown:
        return OutcomeUnknown(self.lost or otherwise)

    async def _write(self, frame: str) -> None:
        try:
            await self.wire.send(frame)
        except Exception as error:  # noqa: BLE001 - any error; part of the frame may be sent
            self.lose(f"connection lost while writing: {error!r}")

    def _parse(self, data: str | bytes) -> Json | None:
        try:
            frame = json.loads(data)
        except (ValueError, RecursionError) as error:
            logger.warning("{} sent {!r}, which is no JSON: {}", self.source, data[:200], error)
            return None
        if not isinstance(frame, dict):
            logger.warning("{} sent {!r}: expected a JSON object", self.source, data[:200])
            return None
        return frame

    def _take_answer(self, frame: Json) -> None:
        pending = self._waiting.get(str(frame.get("echo")))
        if pending is not None:
            pending.answer = frame
            pending.scope.cancel()
        elif frame.get("echo") is None:
            if frame.get("status") == "failed":
                self.refusal = str(CallRefused(frame))[:200]
            logger.warning(
                "{} sent an answer that belongs to no call: {}", self.source, str(frame)[:300]
            )
        else:
            logger.info("{} answered too late: {}", self.source, str(frame)[:300])

    def _note_message(self, frame: Json) -> None:
        message_id = words(frame.get("message_id"))
        is_one = frame["post_type"] == "message" and 0 < len(message_id) <= LONGEST_ID
        if is_one and len(self.received_ids) < HEARD:
            self.received_ids.add(message_id)

    def _notice_heartbeat(self, frame: Json) -> None:
        interval = frame.get("interval")
        if frame.get("meta_event_type") != "heartbeat" or not isinstance(interval, int | float):
            return
        # Other values are ignored: JSON's NaN as a time limit would end the connection.
        if 0 < interval <= LONGEST_HEARTBEAT_MS:
            self._patience = max(MISSED_HEARTBEATS * interval / 1000, 1.0)


def _data_of(answer: Json) -> Any:
    # The status decides, not the retcode: in NapCat's HTTP API the retcode 200 is a failure, and
    # here the retcode 1 means "async".
    match answer.get("status"):
        case "failed":
            refusal = CallRefused(answer)
            if str(refusal).startswith(KERNEL_TIMEOUT):
                raise OutcomeUnknown(str(refusal))
            raise refusal
        case "async":
            raise OutcomeUnknown("the implementation accepted it and reports no result (async)")
        case "ok":
            return answer.get("data")
    if answer.get("retcode") == 0:
        return answer.get("data")
    raise OutcomeUnknown(f"the answer has an unknown status: {str(answer)[:200]}")
