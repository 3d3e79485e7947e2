"""Lets the code of a run call functions of the host. A call blocks its thread until the answer
arrives."""

from __future__ import annotations

import sys
from _collections import deque
from _thread import _count, allocate_lock
from os import getpid

import guest_values as values
from guest_minimal_stdlib import loads
from guest_wire import (
    ANSWER,
    CALL,
    DONE,
    END,
    FEED,
    FINISH,
    SAME_FUNCTIONS,
    START,
    UNWIND,
    BlockingChannel,
    frame,
)

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_FINISHED = (None,)
"""In the queue of pieces of source, this item says that no piece follows."""


_ENDED = (None, None)
"""Each waiting thread gets this after a call has ended the run."""


class ToolError(Exception):
    """A tool could not do what was requested. The message says why."""


class RunEnded(BaseException):
    """A call has ended the run. This exception ends the current statement, so that the process and
    its globals can be kept."""


def flush_output() -> None:
    """Flush stdout and stderr. Errors are ignored, because the code may have replaced the streams
    by any object."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            continue


class RunConnection:
    """The run's channel, which all threads of the run use.

    One of the waiting threads reads frames for all threads. It delivers an answer to the thread
    that made the call, and puts source into a queue for the main thread.
    """

    def __init__(self, channel: BlockingChannel, known: tuple[bytes, Any]) -> None:
        """``known`` describes the functions that the run most likely gets. It has the JSON text
        from the host, and the decoded value."""
        self._channel = channel
        self._value_limit = 0
        self._lock = allocate_lock()
        self._sending = allocate_lock()
        self._reading = False
        self._waiting: list[Any] = []
        self._calls = 0
        self._answers: dict[int, tuple[bytes, bytes]] = {}
        self._source: deque[tuple[Any]] = deque()
        self._starts: deque[tuple[int, bytes, bytes]] = deque()
        self._held = b""
        self._unwinding = False
        self._described, self.functions = known
        self.quiet = False
        """Whether an answer during this statement said that its value must not be shown. The
        program sets this to False before each statement."""

    def start(self) -> tuple[dict[str, Any], list[tuple[list[str], str, str]]]:
        """Wait for START. Return the run's settings and the descriptions of its functions."""
        number, text, described = self._wait(
            lambda: self._starts.popleft() if self._starts else None
        )
        settings = loads(text)
        self._value_limit = settings["value"]
        same = number & SAME_FUNCTIONS or described == self._described
        if not same or self.functions is None:
            self._described, self.functions = described, loads(described)
        return settings, self.functions

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the host and return its value. Raises `ToolError` if the call failed,
        and `RunEnded` if a call has ended the run."""
        text, body = values.encode_call(name, args, kwargs, self._value_limit)
        # The supervisor reports to the host what was printed before the call, so the output must be
        # flushed now.
        flush_output()
        with self._sending:
            self._calls += 1
            number = self._calls
            self._channel.send(CALL, number, text, body)
        text, body = self._wait(
            lambda: _ENDED if self._unwinding else self._answers.pop(number, None)
        )
        if text is None:
            raise RunEnded
        told = loads(text) if text else {}
        if "error" in told:
            raise ToolError(told["error"])
        self.quiet = self.quiet or "quiet" in told
        return values.load(body)

    def source(self) -> tuple[int, int, str] | None:
        """Wait for the next piece of source: (number, first line, source). None after the last
        piece."""
        found = self._wait(self._next_source)
        if found is _ENDED:
            raise RunEnded
        return found[0]

    def _next_source(self) -> Any:
        if self._unwinding:
            return _ENDED
        return self._source.popleft() if self._source else None

    def done(self, number: int, text: bytes = b"1") -> None:
        """Send DONE after a statement.

        If this was the last statement of a piece of source, ``number`` is the piece's number.
        Otherwise it is 0. An empty ``text`` says that the piece had no statement."""
        said = frame(DONE, number, text)
        with self._sending:
            if number and self._source and self._source[0] == _FINISHED and not _count():
                self._held = said  # `end` is called next. It sends both frames together.
            else:
                self._channel.send_bytes(said)

    def end(self, text: bytes) -> None:
        """Send END with ``text``, which says how the run ended."""
        with self._sending:
            held, self._held = self._held, b""
            # A child that the code forked has this channel too. So the frame has the process id: it
            # shows whether the main process sent the frame.
            self._channel.send_bytes(held + frame(END, getpid(), text))

    def _wait(self, take: Callable[[], Any]) -> Any:
        while True:
            turn = None
            with self._lock:
                found = take()
                if found is not None:
                    return found
                if self._reading:
                    turn = allocate_lock()
                    turn.acquire()
                    self._waiting.append(turn)
                self._reading = True
            if turn is not None:
                turn.acquire()
                continue
            received = None
            try:
                received = self._channel.receive()
            finally:
                with self._lock:
                    self._reading = False
                    while received:
                        self._deliver(*received)
                        received = self._channel.received()
                    waiting, self._waiting = self._waiting, []
                for turn in waiting:
                    turn.release()

    def _deliver(self, kind: int, number: int, text: bytes, body: bytes) -> None:
        if kind == ANSWER:
            self._answers[number] = (text, body)
        elif kind == FEED:
            self._source.append(((number, loads(text)["line"], body.decode()),))
        elif kind == FINISH:
            self._source.append(_FINISHED)
        elif kind == UNWIND:
            self._unwinding = True
        elif kind == START:
            self._unwinding = False
            self._source.clear()  # This removes source that the last run did not execute.
            self._starts.append((number, text, body))


def _function(
    conversation: RunConnection, reported: str, signature: str, doc: str
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return conversation.call(reported, args, kwargs)

    call.__name__ = reported.rpartition(".")[2]
    call.__qualname__ = reported
    call.__module__ = "tools"
    call.__doc__ = f"{call.__name__}{signature}\n\n{doc}".rstrip()
    return call


class FunctionNamespace(type(sys)):
    """Holds functions with a dotted name: ``chat`` for ``chat.send_image``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        offered = ", ".join(sorted(key for key in vars(self) if not key.startswith("__")))
        raise AttributeError(f"{self.__name__} has no function {name!r}; it has: {offered}")


class ToolBindings:
    """Puts the functions of a run into ``namespace``, the globals of its code. The code may replace
    them."""

    def __init__(self, conversation: RunConnection, namespace: dict[str, Any]) -> None:
        self._conversation = conversation
        self._namespace = namespace
        self._bound: list[tuple[dict[str, Any], str, Any]] = []
        self._made: list[tuple[dict[str, Any], str, FunctionNamespace]] = []
        self._described: Any = None

    def bind(self, described: list[tuple[list[str], str | None, str]]) -> None:
        """Bind each function to all its names, and remove the functions of the last run. Each item
        of ``described`` has the names of a function, its signature and its documentation. A name
        that the code has given to another value keeps this value. An item without a signature is a
        value: its text is bound to its name.

        The first part of a dotted name can also be imported (``from chat import send_image``),
        unless it is the name of a real module.
        """
        # The functions are the same as before. Skipping the work saves 80 µs.
        if described is self._described:
            for holder, name, function in self._bound:
                holder.setdefault(name, function)
            return
        self._described = described
        for holder, name, function in self._bound:
            if holder.get(name) is function:
                del holder[name]
        for holder, name, namespace in self._made:
            for where in (holder, sys.modules):
                if where.get(name) is namespace:
                    del where[name]
        self._bound.clear()
        self._made.clear()
        for names, signature, doc in described:
            bound: Any = doc
            if signature is not None:
                bound = _function(self._conversation, names[0], signature, doc)
            for dotted in names:
                self._bind_name(dotted, bound)

    def _bind_name(self, dotted: str, function: Any) -> None:
        holder, parts = self._namespace, dotted.split(".")
        for depth, part in enumerate(parts[:-1]):
            inner = holder.get(part)
            if inner is None:
                inner = holder[part] = FunctionNamespace(".".join(parts[: depth + 1]))
                self._made.append((holder, part, inner))
                if depth == 0:
                    _offer_import(part, inner)
            if not hasattr(inner, "__dict__"):  # The code has a variable of this name.
                return
            holder = vars(inner)
        if holder.setdefault(parts[-1], function) is function:
            self._bound.append((holder, parts[-1], function))


def _offer_import(name: str, namespace: FunctionNamespace) -> None:
    """Make ``import chat`` work, unless there is a real module of this name."""
    real = sys.builtin_module_names
    if name not in sys.modules and name not in getattr(sys, "stdlib_module_names", real):
        sys.modules[name] = namespace
