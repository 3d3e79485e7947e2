"""Defines the values that describe tools to external programs, and the results of calls of these
tools."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nekro_core.tools.content import Content


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """One tool. ``schema`` is the JSON Schema of its arguments, of the type ``object``."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The result of a call.

    Attributes:
        content: Texts, pictures and sounds, in order.
        is_error: Whether the call failed.
    """

    content: tuple[Content, ...]
    is_error: bool = False
