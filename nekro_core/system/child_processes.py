"""Child processes that may die while they are written to."""

import asyncio

from anyio.abc import Process


def tolerate_exit(process: Process) -> Process:
    """The same process. Its streams tell that it is gone, and no log does besides.

    asyncio of CPython 3.11.2 keeps the error once more, for `wait_closed`, and logs it as an
    exception that nobody retrieved; 3.11.7 does not. anyio offers no `wait_closed`.
    """
    protocol = getattr(getattr(process, "_process", None), "_protocol", None)
    closed = getattr(protocol, "_stdin_closed", None)
    if isinstance(closed, asyncio.Future):
        closed.add_done_callback(_retrieve)
    return process


def _retrieve(closed: "asyncio.Future[None]") -> None:
    if not closed.cancelled():
        closed.exception()
