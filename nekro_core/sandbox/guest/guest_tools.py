"""The host's functions as a run sees them: calls that block their thread until the answer is there."""

import collections
import json
import sys
import threading
import types

import guest_values as values
from guest_wire import ANSWER, CALL, FEED, FINISH


class ToolError(Exception):
    """A tool could not do what it was asked; the message says why."""


class Conversation:
    """The run's channel, shared by its threads.

    Whichever thread waits reads for all: an answer goes to the thread that asked, source to the
    queue from which the main thread takes it.
    """

    def __init__(self, channel, value_limit):
        self._channel = channel
        self._value_limit = value_limit
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._reading = False
        self._calls = 0
        self._answers = {}
        self._source = collections.deque()

    def call(self, name, args, kwargs):
        """Call a function of the host and give its value, or raise `ToolError`."""
        text, body = values.encode_call(name, args, kwargs, self._value_limit)
        with self._sending:
            self._calls += 1
            number = self._calls
            self._channel.send(CALL, number, text, body)
        text, body = self._wait(lambda: self._answers.pop(number, None))
        if text:
            raise ToolError(json.loads(text)["error"])
        return values.load(body)

    def source(self):
        """The next (chunk number, first line, source), or None after the last."""
        return self._wait(lambda: self._source.popleft() if self._source else None)[0]

    def send(self, kind, number=0, text=b""):
        """Send a frame that has no answer."""
        with self._sending:
            self._channel.send(kind, number, text)

    def _wait(self, take):
        while True:
            with self._changed:
                while True:
                    found = take()
                    if found is not None:
                        return found
                    if not self._reading:
                        self._reading = True
                        break
                    self._changed.wait()
            received = None
            try:
                received = self._channel.receive()
            finally:
                with self._changed:
                    self._reading = False
                    if received:
                        self._deliver(*received)
                    self._changed.notify_all()

    def _deliver(self, kind, number, text, body):
        if kind == ANSWER:
            self._answers[number] = (text, body)
        elif kind == FEED:
            self._source.append(((number, json.loads(text)["line"], body.decode()),))
        elif kind == FINISH:
            self._source.append((None,))


def _function(conversation, names, signature, doc):
    reported = names[0]
    name = reported.rpartition(".")[2]

    def call(*args, **kwargs):
        return conversation.call(reported, args, kwargs)

    call.__name__ = name
    call.__qualname__ = reported
    call.__module__ = "tools"
    call.__doc__ = ("%s%s\n\n%s" % (name, signature, doc)).rstrip()
    return call


class Namespace(types.ModuleType):
    """Functions under a dotted name: ``chat`` of ``chat.send_image``."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        offered = ", ".join(sorted(key for key in vars(self) if not key.startswith("__")))
        raise AttributeError("%s has no function %r; it has: %s" % (self.__name__, name, offered))


def bind(conversation, described, namespace):
    """Put every function under all its names into ``namespace``.

    A dotted name's first part can be imported too (``from chat import send_image``), but where it is
    the name of a real module.
    """
    for names, signature, doc in described:
        function = _function(conversation, names, signature, doc)
        for dotted in names:
            holder, parts = namespace, dotted.split(".")
            for depth, part in enumerate(parts[:-1]):
                inner = holder.get(part)
                if inner is None:
                    inner = holder[part] = Namespace(".".join(parts[: depth + 1]))
                    if depth == 0 and part not in sys.modules:
                        sys.modules.setdefault(part, inner)
                holder = vars(inner)
            holder.setdefault(parts[-1], function)
