"""Defines the types of ASGI, so that no web framework must be imported for them."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
WebApplication = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI application, which answers requests."""
