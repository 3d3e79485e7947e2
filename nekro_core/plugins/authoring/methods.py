"""What a plugin author writes down of a sandbox method."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from nekro_core.tools.tool import ToolKind, Visibility

SandboxMethodType = ToolKind
"""The kinds under the name that plugin authors know."""


@dataclass(frozen=True, slots=True)
class SandboxMethod:
    """A function that the AI may call, as its plugin registered it.

    Attributes:
        method_type: What its result does to the turn.
        name: How the AI calls it, where it is an identifier.
        description: What the AI is told of it.
        func: The function.
        needs_chat: Whether it sends or reads anything of the chat.
        visibility: Whether the prompt shows it.
    """

    method_type: SandboxMethodType
    name: str
    description: str
    func: Callable[..., Awaitable[Any]]
    needs_chat: bool = True
    visibility: Visibility = Visibility.VISIBLE
