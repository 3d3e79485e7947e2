"""The types of ASGI, without the import of a web framework."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
WebApplication = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An application: it answers requests."""
