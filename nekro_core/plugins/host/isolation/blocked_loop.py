"""Logs code that blocks the event loop, and interrupts the code if it belongs to a plugin. While a
handler computes without awaiting, every chat waits.

The loop regularly stores the time, as a heartbeat. A watchdog thread checks this time. If it stops
changing, the thread reads the stack of the loop's thread. If a plugin continues to block, the
watchdog thread sends a signal. The signal handler raises an exception in the plugin's code. This
ends a Python loop and a blocking call such as ``time.sleep`` or a read from a socket.

Code that never releases the GIL also stops the watchdog thread. For this case a timer on the
process's CPU time sends another signal. Python's regular expressions check for signals while they
match, so an endless match is ended too. Other C code is not ended. If a plugin is interrupted
before the watchdog thread could log it, it is logged at the interruption.
"""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import Any

from loguru import logger

from nekro_core.plugins.authoring.faults import LoopBlocked
from nekro_core.plugins.host.hooks import hook_result
from nekro_core.plugins.host.isolation.code_owner import plugin_of_frame, plugin_of_module
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.system.sync_bridge import outer_frame

_LOOKS = 4
"""Number of checks of the heartbeat within the time that a handler may block."""
_SHOWN = 6
"""How many stack frames the log shows, innermost last."""
_OWN_PATIENCE = 3
"""The bot's own code may block this many times longer than a plugin before it is logged, because
the bot reads large files when it starts."""
_SIGNAL = getattr(signal, "SIGUSR2", None)
_ALARM = getattr(signal, "SIGVTALRM", None)


@contextmanager
def watch_event_loop(limit_s: float, break_s: float = 0.0) -> Iterator[None]:
    """Log code that blocks the running loop for longer than ``limit_s`` seconds, once when this is
    found and once when the loop continues. If a plugin blocks for ``break_s`` seconds,
    `LoopBlocked` is raised in its code, and again after each further ``break_s``; 0 never
    interrupts.

    Interrupting needs the signals SIGUSR2 and SIGVTALRM. If either is in use, or this is not the
    main thread, nothing is interrupted.
    """
    watch = _Watch(asyncio.get_running_loop(), threading.get_ident(), limit_s)
    looking = threading.Thread(target=watch.look, name="watch of the event loop", daemon=True)
    logging = threading.Thread(target=watch.write_log, name="log of that watch", daemon=True)
    with _breaking(watch, break_s):
        watch.beat()
        looking.start()
        logging.start()
        try:
            yield
        finally:
            watch.ended.set()
            looking.join()
            watch.end_log()
            logging.join()


@contextmanager
def _breaking(watch: "_Watch", break_s: float) -> Iterator[None]:
    main = threading.current_thread() is threading.main_thread()
    if not main or _SIGNAL is None or _ALARM is None or not break_s:
        yield
        return
    if not all(signal.getsignal(each) is signal.SIG_DFL for each in (_SIGNAL, _ALARM)):
        yield
        return
    signal.signal(_SIGNAL, watch.interrupt)
    signal.signal(_ALARM, watch.alarmed)
    watch.break_s = break_s
    try:
        yield
    finally:
        watch.break_s = 0.0
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        for each in (_SIGNAL, _ALARM):
            # The signal may be pending, and its default action would end the process. So ignore the
            # signal first, which drops a pending one.
            signal.signal(each, signal.SIG_IGN)
            signal.signal(each, signal.SIG_DFL)


class _Watch:
    def __init__(self, loop: asyncio.AbstractEventLoop, thread_id: int, limit_s: float) -> None:
        self.ended = threading.Event()
        self.break_s = 0.0
        self._loop = loop
        self._thread_id = thread_id
        self._limit_s = limit_s
        self._every_s = limit_s / _LOOKS
        self._beaten = time.monotonic()
        self._told_of = 0.0
        """The last heartbeat before the blocking that was logged; 0 if none was logged, or if the
        loop has continued since."""
        self._sent_for = 0.0
        """The last heartbeat before the blocking for which a signal was sent."""
        self._log: SimpleQueue[tuple[str, str, tuple[object, ...]] | None] = SimpleQueue()
        """Lines for the logging thread. The code that blocks may hold a lock of the log, so neither
        the signal handler nor the watchdog thread may wait for it. `SimpleQueue.put` is safe in a
        signal handler, whatever code the signal interrupted."""

    def beat(self) -> None:
        """Store the time as the heartbeat. Runs in the loop."""
        self._beaten = time.monotonic()
        if self.break_s:
            # The timer counts CPU time, so that it does not fire after the process was stopped.
            signal.setitimer(signal.ITIMER_VIRTUAL, self.break_s + self._every_s)
        if not self.ended.is_set():
            self._loop.call_later(self._every_s, self.beat)

    def look(self) -> None:
        """Check the heartbeat until the watch ends. Runs in the watchdog thread."""
        broken_at = 0.0
        looks = 0
        seen = before = time.monotonic()
        while not self.ended.wait(self._every_s):
            now, beaten = time.monotonic(), self._beaten
            # Do not count this check if the machine slept or this thread was late.
            punctual = now - before < 2 * self._every_s
            looks = looks + 1 if beaten == seen and punctual else 0
            seen, before = beaten, now
            told_of = self._told_of
            if told_of and beaten > told_of:
                message = "the event loop goes on after {:.1f} s"
                self._log.put(("WARNING", message, (beaten - told_of,)))
                self._told_of = told_of = 0.0
            elif not told_of and looks > _LOOKS:
                # `sys._current_frames` is documented, and no other function does this.
                frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001
                self._tell(frame, beaten, now - beaten, looks)
                told_of = self._told_of
            if told_of and self.break_s and now - max(broken_at, told_of) > self.break_s:
                broken_at = now
                self._send(beaten)

    def write_log(self) -> None:
        """Log the queued lines until `end_log` was called. Runs in the logging thread."""
        while (line := self._log.get()) is not None:
            level, message, values = line
            logger.log(level, message, *values)

    def end_log(self) -> None:
        """Let `write_log` return after the lines that are queued now."""
        self._log.put(None)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGUSR2 in the loop's thread. Raises `LoopBlocked` if a plugin's code runs there
        and the loop has not continued since the signal was sent; otherwise does nothing."""
        del number
        if self._beaten == self._sent_for:
            self._break(frame)

    def alarmed(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGVTALRM, which is for the case that the watchdog thread cannot run. The CPU time
        may have been used by other threads while the loop did not block. So start the timer again,
        and interrupt only if the heartbeat is too old."""
        del number
        if not self.break_s:
            return
        signal.setitimer(signal.ITIMER_VIRTUAL, self._every_s)
        if time.monotonic() - self._beaten > self.break_s + self._every_s:
            self._break(frame)

    def _break(self, frame: FrameType | None) -> None:
        if not (plugin := plugin_of_frame(frame)):
            return
        beaten = self._beaten
        seconds = time.monotonic() - beaten
        if self._told_of != beaten:  # The watchdog thread has not logged this blocking.
            self._tell(frame, beaten, seconds, _LOOKS)
        message = "plugin {} is broken off, it blocked the loop for {:.1f} s"
        self._log.put(("ERROR", message, (plugin, seconds)))
        raise LoopBlocked(f"it blocked the event loop for {seconds:.1f} s and was broken off")

    def _send(self, beaten: float) -> None:
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 (it is documented)
        if _SIGNAL is not None and plugin_of_frame(frame):
            self._sent_for = beaten
            signal.pthread_kill(self._thread_id, _SIGNAL)

    def _tell(self, frame: FrameType | None, beaten: float, seconds: float, looks: int) -> None:
        """Log the code in ``frame`` that blocks the loop. Does nothing if the loop only waits for
        events, or if the bot's own code has not yet blocked for long enough."""
        idle = asyncio.current_task(self._loop) is None and not plugin_of_frame(frame)
        if frame is None or idle:
            return  # No task runs: the loop waits for events.
        stack = [*_outwards(frame)]
        who = _who(stack)
        if not who and looks <= _LOOKS * _OWN_PATIENCE:
            return
        self._told_of = beaten
        message = (
            "{} has blocked the event loop for {:.1f} s, and with it every chat. Await what waits, "
            "and compute in a thread (anyio.to_thread.run_sync). It stands in:\n{}"
        )
        place = "\n".join(f"  {_place(each)}" for each in reversed(stack[:_SHOWN]))
        self._log.put(("ERROR", message, (who or "something", seconds, place)))


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back or outer_frame(frame)


def _who(stack: list[FrameType]) -> str:
    """Return the name of the tool or hook that blocks, read from the frame of the bot that called
    it. If there is no such frame, return the name of the plugin whose code runs, for example in a
    task that it started. Empty if the stack has no code of a plugin."""
    for frame in stack:
        if frame.f_code is _code(call_tool):
            tool, ctx = frame.f_locals["tool"], frame.f_locals["ctx"]
            return f"{tool.owner}'s {tool.name} ({tool.where}), called for {ctx.chat},"
        if frame.f_code is _code(hook_result):
            return f"plugin {frame.f_locals['plugin'].key}: {frame.f_locals['what']}"
    for frame in stack:
        if plugin := plugin_of_module(frame.f_globals.get("__name__") or ""):
            return f"plugin {plugin}"
    return ""


def _code(function: Any) -> CodeType:
    code: CodeType = function.__code__
    return code


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"{Path(code.co_filename)}:{frame.f_lineno} in {code.co_qualname}"
