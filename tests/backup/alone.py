"""Runs async code for tests and fixtures that are not async."""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import anyio

Result = TypeVar("Result")


def run_alone(function: Callable[..., Awaitable[Result]], *arguments: Any) -> Result:
    """Run a function in an event loop of its own. It needs a thread of its own, since the loop of a
    fixture of another file may still be open in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(anyio.run, function, *arguments).result()
