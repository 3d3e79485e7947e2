"""Helps with child processes that may end while the bot writes to them."""

import asyncio

from anyio.abc import Process


def tolerate_exit(process: Process) -> Process:
    """Keep asyncio from logging an error when a child process ends while the bot writes to it. The
    process's streams raise this error, so the bot learns of it.

    CPython 3.11.2 stores the error a second time, for `wait_closed`. anyio never calls
    `wait_closed`. So CPython logs that an exception was never retrieved. CPython 3.11.7 does not
    log this.
    """
    protocol = getattr(getattr(process, "_process", None), "_protocol", None)
    closed = getattr(protocol, "_stdin_closed", None)
    if isinstance(closed, asyncio.Future):
        closed.add_done_callback(_retrieve)
    return process


def _retrieve(closed: "asyncio.Future[None]") -> None:
    if not closed.cancelled():
        closed.exception()
