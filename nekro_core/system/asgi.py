"""The words of ASGI, so that nobody imports a web framework for their sake."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
WebApplication = Callable[[Scope, Receive, Send], Awaitable[None]]
"""Answers requests."""
