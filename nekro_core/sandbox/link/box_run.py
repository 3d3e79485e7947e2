"""Does the host's part of one run: it sends source to the run, answers the run's calls, and limits
its time."""

import asyncio
import logging
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
from functools import partial

import msgspec

from nekro_core.sandbox.box import (
    Answer,
    CallFailure,
    CallHandler,
    EndRun,
    GuestCall,
    RunLimits,
    RunResult,
    StatementTime,
    StopReason,
)
from nekro_core.sandbox.guest import guest_wire as wire
from nekro_core.sandbox.link.calls import InvalidCall, decode_call
from nekro_core.sandbox.link.channel import Channel
from nekro_core.sandbox.link.handover import HandoverError, dump
from nekro_core.sandbox.link.worker_pool import Job, WorkerPool

_log = logging.getLogger(__name__)

_KILL_GRACE_S = 3.0
"""Time, in seconds, in which a supervisor must end a run. If it does not, the box and its files are
lost. Half a second is too short on a busy machine while a fork bomb runs in the box."""

_UNWIND_S = 0.05
"""Time, in seconds, in which a run that keeps its globals must end after `EndRun`. The call raises
an exception, which must pass through a few functions of the code. If the code catches this
exception, the run is killed after this time."""

_ERROR_LIMIT = 16_000

_STARVED = "the code used more memory than its box has"
_STARVES_S = 0.02
"""No run can use up a box's memory in less than this many seconds. So ``starved``, which reads a
file, is not called after a shorter run."""

_TIMED = 200
"""Maximum number of pieces of source whose times are measured."""

_QUIET = b'{"quiet":true}'
"""The text part of an ANSWER frame. It tells the box not to print the value of the answer."""


class _Ended(msgspec.Struct):
    stop: StopReason
    error: str = ""


class BoxRun:
    """A `Run` that is controlled through the channel to the supervisor.

    ``names`` has the names of the functions that the code may call, ``handler`` answers the calls
    in tasks of ``workers``. ``tear_down`` loses the box, with a reason. For ``starved`` see
    `BoxConnection`.
    """

    def __init__(
        self,
        *,
        channel: Channel,
        names: frozenset[str],
        handler: CallHandler,
        limits: RunLimits,
        keeps_globals: bool = False,
        workers: WorkerPool,
        clock: Callable[[], float],
        tear_down: Callable[[str], None],
        starved: Callable[[], bool] = lambda: False,
    ) -> None:
        self._channel = channel
        self._names = names
        self._handler = handler
        self._limits = limits
        self._keeps_globals = keeps_globals
        self._workers = workers
        self._context = copy_context()
        self._clock = clock
        self._tear_down = tear_down
        self._starved = starved
        self._began = clock()
        self._loop = asyncio.get_running_loop()
        self._open_calls: dict[int, Job] = {}
        self._fed = self._executed = self._statements = self._call_count = 0
        self._timeline: list[StatementTime] = []
        self._finishing = False
        self._stopping: _Ended | None = None
        self._printed = self._checkpoint = 0  # Both are numbers of bytes of the output.
        self._used = 0.0
        self._running_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._result: RunResult | None = None
        self._over = asyncio.Event()

    async def feed(self, source: str, line: int) -> None:
        """See `Run.feed`."""
        if self._result is None and not self._finishing:
            self._fed += 1
            if self._fed <= _TIMED:
                self._timeline.append(StatementTime(line, self._clock() - self._began))
            place = msgspec.json.encode({"line": line})
            self._channel.send_soon(wire.FEED, self._fed, place, source.encode("utf-8", "replace"))
            self._update_guest_time()

    async def finish(self) -> RunResult:
        """See `Run.finish`."""
        if self._result is None and not self._finishing:
            self._finishing = True
            self._channel.send_soon(wire.FINISH)
            self._update_guest_time()
        return await self.wait()

    async def wait(self) -> RunResult:
        """See `Run.wait`."""
        await self._over.wait()
        assert self._result is not None
        return self._result

    async def cancel(self) -> RunResult:
        """See `Run.cancel`."""
        self.stop(StopReason.CANCELLED)
        return await self.wait()

    def stop(self, reason: StopReason, error: str = "") -> None:
        """Have the supervisor kill the run. If that takes too long, the box is lost."""
        if self._result is None and self._stopping is None:
            self._stopping = _Ended(reason, error)
            self._kill()

    def _kill(self) -> None:
        """Have the supervisor kill the run, with the reason in ``_stopping``."""
        if self._result is None:
            self._channel.send(wire.CANCEL, 0, msgspec.json.encode(self._stopping))
            self._set_timer(_KILL_GRACE_S, self._give_up)

    def _end_by_call(self, number: int) -> None:
        """End the run because a call was answered with `EndRun`. In a run that keeps its globals,
        the call raises an exception, and the run is killed only after `_UNWIND_S`."""
        if not self._keeps_globals:
            self.stop(StopReason.ENDED_BY_CALL)
        elif self._result is None and self._stopping is None:
            self._stopping = _Ended(StopReason.ENDED_BY_CALL)
            self._channel.send(wire.UNWIND, number)
            self._set_timer(_UNWIND_S, self._kill)

    def charge(self, processor_s: float) -> None:
        """Add processor time (in seconds) that the run used while it seemed to wait. It counts for
        the run's time limit."""
        if self._running_since is None and self._stopping is None:
            self._used += processor_s
            self._check_time()

    @property
    def is_running_code(self) -> bool:
        """Return True if the run is executing code, and not waiting for source or for an answer."""
        return self._running_since is not None

    def handle(self, kind: int, number: int, text: bytes, body: bytes) -> None:
        """Handle a frame of the supervisor about this run."""
        if self._result is not None:
            return
        if kind == wire.RESULT:
            self._end_with(number, text, body)
        elif self._stopping is not None:
            return
        elif kind == wire.CALL:
            self._call(number, text, body)
        elif kind == wire.DONE:
            self._statements += bool(text)
            self._executed = min(max(self._executed, number), self._fed)
            if 0 < number <= len(self._timeline):
                # The box chooses the number and may repeat it. Then the time of the first frame
                # stays.
                known = self._timeline[number - 1]
                if known.ended is None:
                    ended = self._clock() - self._began
                    self._timeline[number - 1] = replace(known, ended=ended)
        elif kind == wire.PRINTED:
            self._printed = number
        elif kind == wire.USED:
            self.charge(number / 1e6)
        self._update_guest_time()

    def lost(self, reason: str) -> None:
        """End the run because the box is lost."""
        ended = _Ended(StopReason.DIED, f"the box was lost: {reason}")
        if self._starved():  # The kernel has killed the supervisor too.
            ended = _Ended(StopReason.OUT_OF_MEMORY, f"{_STARVED}: it was lost")
        self._end(self._stopping or ended, b"")

    def _call(self, number: int, text: bytes, body: bytes) -> None:
        self._call_count += 1
        if number in self._open_calls:
            self.stop(StopReason.PROTOCOL_ERROR, "the run used the number of an open call again")
            return
        try:
            call = decode_call(text, body)
        except InvalidCall as error:
            self.stop(StopReason.PROTOCOL_ERROR, f"the run sent {error}")
            return
        if call.name not in self._names:
            self.stop(StopReason.PROTOCOL_ERROR, "the run called what it was not given")
            return
        work = partial(self._serve, number, call, self._printed)
        self._open_calls[number] = self._workers.submit(work, self._context.copy())

    async def _serve(self, number: int, call: GuestCall, printed: int) -> None:
        try:
            answer = await self._handler(call)
        except Exception:  # noqa: BLE001 - a bug in a handler must not end the bot
            _log.exception("the handler of %s failed", call.name)
            answer = CallFailure(f"{call.name} failed for a reason inside the bot; it was logged")
        self._open_calls.pop(number, None)
        if not isinstance(answer, EndRun) and answer.checkpoint:
            self._checkpoint = max(self._checkpoint, printed)
        if not self._over.is_set() and self._stopping is None:
            self._send_answer(number, call, answer)
            self._update_guest_time()

    def _send_answer(self, number: int, call: GuestCall, answer: Answer) -> None:
        if isinstance(answer, EndRun):
            self._end_by_call(number)
            return
        body = b""
        if not isinstance(answer, CallFailure):
            try:
                body = dump(answer.value)
            except HandoverError as error:
                answer = CallFailure(
                    f"{call.name} gave a value that cannot reach the code: {error}"
                )
            else:
                if len(body) > self._limits.value_bytes:
                    answer = CallFailure(
                        f"{call.name} gave {len(body)} bytes; "
                        f"at most {self._limits.value_bytes} reach the code"
                    )
        if isinstance(answer, CallFailure):
            message = answer.message.encode("utf-8", "replace").decode()
            self._channel.send(wire.ANSWER, number, msgspec.json.encode({"error": message}))
        else:
            quiet = answer.checkpoint or not answer.shown
            self._channel.send(wire.ANSWER, number, _QUIET if quiet else b"", body)

    def _update_guest_time(self) -> None:
        waiting = self._open_calls or (self._executed >= self._fed and not self._finishing)
        if self._result is not None or waiting:
            if self._running_since is not None:
                self._used += self._clock() - self._running_since
                self._running_since = None
        elif self._running_since is None:
            self._running_since = self._clock()
            if self._timer is None:
                self._check_time()

    def _check_time(self) -> None:
        """Stop the run if its time is used up. Otherwise set a timer for the time that is left."""
        self._timer = None
        if self._result is not None or self._stopping is not None:
            return
        now = self._clock() - self._running_since if self._running_since is not None else 0.0
        left = self._limits.seconds - self._used - now
        if left <= 0:
            self.stop(
                StopReason.TIMEOUT,
                f"the code ran longer than {self._limits.seconds:g} s and was stopped",
            )
        elif self._running_since is not None:
            self._set_timer(left, self._check_time)

    def _give_up(self) -> None:
        """Lose the box, because its supervisor did not end the run in time."""
        self._timer = None
        if self._result is None:
            self._tear_down("its supervisor did not end a run in time")

    def _set_timer(self, seconds: float, act: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, act)

    def _end_with(self, flags: int, text: bytes, output: bytes) -> None:
        try:
            ended = msgspec.json.decode(text, type=_Ended)
        except msgspec.DecodeError:
            ended = _Ended(StopReason.PROTOCOL_ERROR, "the run ended with what cannot be read")
        said_by_run = {StopReason.FINISHED, StopReason.ERROR, StopReason.OUT_OF_MEMORY}
        if flags & wire.SAID_BY_RUN and ended.stop not in said_by_run:
            ended = _Ended(StopReason.PROTOCOL_ERROR, "the run claimed an end that is not its own")
        if ended.stop is StopReason.DIED and self._starved():
            ended = _Ended(StopReason.OUT_OF_MEMORY, _STARVED)
        if ended.stop is StopReason.TOO_MANY_CALLS:
            ended.error = f"the code made more than {self._limits.calls} tool calls and was stopped"
        truncated, kept = bool(flags & wire.TRUNCATED), bool(flags & wire.KEPT)
        self._end(self._stopping or ended, output, truncated=truncated, kept=kept)

    def _end(
        self, ended: _Ended, output: bytes, *, truncated: bool = False, kept: bool = False
    ) -> None:
        if self._running_since is not None:
            self._used += self._clock() - self._running_since
            self._running_since = None
        self._result = RunResult(
            stop=ended.stop,
            output=output.decode("utf-8", "replace"),
            output_truncated=truncated,
            fresh_output=output[self._checkpoint :].decode("utf-8", "replace"),
            error=ended.error[:_ERROR_LIMIT],
            statements=self._statements,
            timeline=tuple(self._timeline),
            calls=self._call_count,
            seconds=self._used,
            globals_kept=kept,
        )
        # This is done before the cleanup, so that callers continue as early as possible.
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()
        for job in self._open_calls.values():
            job.cancel()
        if self._clock() - self._began > _STARVES_S:
            # This call only resets what `_starved` returns. Otherwise kills during this run would
            # count as kills in the next run.
            self._starved()
