"""A part of the plugin."""

from collections.abc import Callable
from typing import Any

WORD = "word"
_listening: list[Callable[..., Any]] = []


def listen(function: Callable[..., Any]) -> None:
    """Remember a function."""
    _listening.append(function)


def forget() -> None:
    """Undo that."""
    _listening.clear()
