"""Makes the result of a tool call. It is always a JSON text, also after an error."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nekro_core.system.errors import NekroError


class ErrorCode(StrEnum):
    """The kinds of errors. Programs can distinguish them without parsing the message."""

    UNKNOWN_TOOL = "unknown_tool"
    INVALID_INPUT = "invalid_input"
    NOT_FOUND = "not_found"
    IS_A_DIRECTORY = "is_a_directory"
    PERMISSION_DENIED = "permission_denied"
    PATH_ESCAPE = "path_escape"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    SANDBOX_FAILED = "sandbox_failed"
    LIMIT = "limit"
    IMAGE_MISMATCH = "image_mismatch"
    IMAGE_UNAVAILABLE = "image_unavailable"


class SandboxToolError(NekroError):
    """A tool call failed. The model gets the message, which has no information about the host."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class SandboxToolResult:
    """The answer to one call: ``content`` is a JSON object as text.

    ``is_error`` also marks a command whose exit code is not 0, with its full result. A failed call
    has ``{"error": {"code", "message"}}``.
    """

    content: str
    is_error: bool = False

    @property
    def value(self) -> dict[str, Any]:
        """The content, parsed."""
        value: dict[str, Any] = json.loads(self.content)
        return value

    def as_dict(self) -> dict[str, Any]:
        """Return ``{content, isError}``, the form that the document defines."""
        return {"content": self.content} | ({"isError": True} if self.is_error else {})


def result(value: Mapping[str, Any], *, is_error: bool = False) -> SandboxToolResult:
    """Make a result with this value."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return SandboxToolResult(text, is_error)


def failure(error: SandboxToolError, news: Mapping[str, Any]) -> SandboxToolResult:
    """Make the result of a call that failed. It also has ``news``, the notices of the boxes that
    the call used."""
    told = {"error": {"code": error.code.value, "message": str(error)}}
    return result({**told, **news}, is_error=True)
