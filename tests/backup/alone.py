"""Runs async code for tests and fixtures that are not async."""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import anyio

Result = TypeVar("Result")


def run_alone(function: Callable[..., Awaitable[Result]], *arguments: Any) -> Result:
    """Run a function in a separate event loop. The loop runs in a separate thread, because the
    event loop of another file's fixture may still be open in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(anyio.run, function, *arguments).result()
