"""Names what holds the event loop up: while a handler computes without awaiting, every chat waits.

The loop moves a hand; a thread looks at it and, where it stands still, at the stack of the loop's
own thread. Code that holds Python's lock for all that time (a regular expression gone wild) cannot
be seen: then the thread stands still as well.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from loguru import logger

from nekro_core.plugin.calls import call
from nekro_core.plugin.hooks import asked
from nekro_core.plugin.waiting import outer_frame

_LOOKS = 4
"""Looks in the time that a handler may block."""
_SHOWN = 6
"""Lines of the stack that are shown, innermost last."""


@contextmanager
def loop_watched(limit_s: float) -> Iterator[None]:
    """Log once an incident what blocks the running loop for longer than ``limit_s``, and once more
    when it goes on."""
    watch = _Watch(asyncio.get_running_loop(), threading.get_ident(), limit_s)
    thread = threading.Thread(target=watch.look, name="watch of the event loop", daemon=True)
    watch.beat()
    thread.start()
    try:
        yield
    finally:
        watch.ended.set()
        thread.join()


class _Watch:
    def __init__(self, loop: asyncio.AbstractEventLoop, thread_id: int, limit_s: float) -> None:
        self.ended = threading.Event()
        self._loop = loop
        self._thread_id = thread_id
        self._limit_s = limit_s
        self._every_s = limit_s / _LOOKS
        self._beaten = time.monotonic()

    def beat(self) -> None:
        """Move the hand, in the loop."""
        self._beaten = time.monotonic()
        if not self.ended.is_set():
            self._loop.call_later(self._every_s, self.beat)

    def look(self) -> None:
        """Look at it, in the thread."""
        told_of = 0.0
        looks = 0
        seen = before = time.monotonic()
        while not self.ended.wait(self._every_s):
            now, beaten = time.monotonic(), self._beaten
            # A machine that slept, or had no time for this thread either, blames nobody.
            punctual = now - before < 2 * self._every_s
            looks = looks + 1 if beaten == seen and punctual else 0
            seen, before = beaten, now
            if told_of and beaten != told_of:
                logger.warning("the event loop goes on after {:.1f} s", beaten - told_of)
                told_of = 0.0
            elif not told_of and looks > _LOOKS and self._tell(now - beaten):
                told_of = beaten

    def _tell(self, seconds: float) -> bool:
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 (documented, the only way)
        if frame is None or asyncio.current_task(self._loop) is None:
            return False  # It waits for events: nobody's code runs.
        stack = [*_outwards(frame)]
        logger.error(
            "{} has blocked the event loop for {:.1f} s, and with it every chat. Await what waits, "
            "and compute in a thread (anyio.to_thread.run_sync). It stands in:\n{}",
            _handler(stack) or "something",
            seconds,
            "\n".join(f"  {_place(each)}" for each in reversed(stack[:_SHOWN])),
        )
        return True


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back or outer_frame(frame)


def _handler(stack: list[FrameType]) -> str:
    """Which plugin was asked for what, by the frame of ours that asked it."""
    for frame in stack:
        if frame.f_code is _code(call):
            tool, ctx = frame.f_locals["tool"], frame.f_locals["ctx"]
            return f"{tool.owner}'s {tool.name} ({tool.where}), called for {ctx.chat},"
        if frame.f_code is _code(asked):
            return f"plugin {frame.f_locals['plugin'].key}: {frame.f_locals['what']}"
    return ""


def _code(function: Any) -> CodeType:
    code: CodeType = function.__code__
    return code


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"{Path(code.co_filename)}:{frame.f_lineno} in {code.co_qualname}"
