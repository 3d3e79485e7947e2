"""Looks up the addresses of hosts in threads. If a name server does not answer, only the chats that
look up its hosts have to wait."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress

import anyio

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host, the best one first. Raises `OSError`."""

AT_ONCE = 16
"""The largest number of threads that wait for an answer at the same time. A lookup cannot be
stopped and may take half a minute. So lookups do not use the event loop's threads, which must stay
free to look up the model's host."""
PER_KEY = 2
"""The largest number of these threads that one key may use. A key is usually a chat."""


class HostResolver:
    """Looks up hosts. ``resolve`` replaces the system's resolver.

    `KeyedLimiter` is not used, because it would stop counting a lookup whose caller is cancelled.
    The thread of such a lookup continues and must be counted.
    """

    def __init__(self, resolve: Resolve | None = None) -> None:
        self._resolve = resolve
        self._open: dict[Hashable, int] = {}
        self._progress = anyio.Event()

    async def addresses(self, host: str, port: int, key: Hashable) -> Sequence[str]:
        """Look up the addresses of a host.

        A caller waits while `PER_KEY` lookups of its ``key`` or `AT_ONCE` lookups of all keys are
        open. If the caller is cancelled, a lookup with the system's resolver stays open until it is
        answered. Raises `OSError`.
        """
        while sum(self._open.values()) >= AT_ONCE or self._open.get(key, 0) >= PER_KEY:
            await self._progress.wait()
        self._open[key] = self._open.get(key, 0) + 1
        if self._resolve is not None:
            try:
                return await self._resolve(host, port)
            finally:
                self._closed(key)
        question = _Question(host, port)
        loop = asyncio.get_running_loop()

        def answered() -> None:
            self._closed(key)
            question.over.set()

        def ask() -> None:
            question.ask()
            with suppress(RuntimeError):  # The event loop has ended meanwhile.
                loop.call_soon_threadsafe(answered)

        threading.Thread(target=ask, name="look up a host", daemon=True).start()
        await question.over.wait()
        if question.failure is not None:
            raise question.failure
        return question.found

    def _closed(self, key: Hashable) -> None:
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]
        self._progress.set()
        self._progress = anyio.Event()


class _Question:
    """One lookup with the system's resolver, which blocks its thread."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self.over = anyio.Event()
        self.found: list[str] = []
        self.failure: OSError | None = None

    def ask(self) -> None:
        """Look up the host, and store the addresses or the error."""
        try:
            entries = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            self.found = [str(entry[4][0]).partition("%")[0] for entry in entries]
        except OSError as error:
            self.failure = error
        except UnicodeError as error:  # A label of the name is too long or empty.
            self.failure = OSError(str(error))
