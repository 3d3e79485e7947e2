"""A second module of the plugin. Unloading the plugin must remove this module too."""

from collections.abc import Callable
from typing import Any

WORD = "word"
_listening: list[Callable[..., Any]] = []


def listen(function: Callable[..., Any]) -> None:
    """Store a function in a list."""
    _listening.append(function)


def forget() -> None:
    """Empty the list."""
    _listening.clear()
