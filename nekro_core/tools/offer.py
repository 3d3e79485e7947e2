"""The values for tools that external programs may call, and for the results of such calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nekro_core.tools.content import Content


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """One tool. ``schema`` is the JSON Schema of its arguments, an object."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The result of a call.

    Attributes:
        content: Texts, pictures and sounds, in order.
        is_error: Whether the call could not do what was asked.
    """

    content: tuple[Content, ...]
    is_error: bool = False
