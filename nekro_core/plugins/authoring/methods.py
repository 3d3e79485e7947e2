"""What a plugin author writes down of a sandbox method."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from nekro_core.tools.tool import ToolKind, Visibility

SandboxMethodType = ToolKind
"""The kinds under the name that plugin authors know."""


@dataclass(frozen=True, slots=True)
class SandboxMethod:
    """A function that the AI may call, as its plugin registered it."""

    method_type: SandboxMethodType
    name: str
    description: str
    func: Callable[..., Awaitable[Any]]
    needs_chat: bool = True
    visibility: Visibility = Visibility.VISIBLE
