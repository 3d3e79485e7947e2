"""Checks the input of a tool call against the tool's schema, and adds default values."""

import difflib
import math
import posixpath
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nekro_core.sandbox.tools.description import ADDED, DOCUMENT
from nekro_core.sandbox.tools.result import ErrorCode, SandboxToolError

HOME = "/home/user"
_FOLDERS = (HOME, "/tmp", "/app")  # noqa: S108 (a box's own)
"""The tools accept only paths of files below these folders."""
_MAX_PATH = 4096

_PROPERTIES: Mapping[str, Mapping[str, Any]] = {
    tool["name"]: {**tool["inputSchema"]["properties"], **ADDED.get(tool["name"], {})}
    for tool in DOCUMENT
}
_REQUIRED: Mapping[str, list[str]] = {
    tool["name"]: tool["inputSchema"].get("required", []) for tool in DOCUMENT
}
_TYPES = {"string": "a string", "number": "a number", "boolean": "true or false"}


def invalid(message: str) -> SandboxToolError:
    """Make the error for an invalid input."""
    return SandboxToolError(ErrorCode.INVALID_INPUT, message)


@dataclass(frozen=True, slots=True)
class ToolInput:
    """The checked input of a call. ``values`` has the values by name, including default values.
    ``given`` has the names that the model wrote."""

    values: Mapping[str, Any]
    given: frozenset[str]

    def text(self, name: str) -> str:
        """Return an input that is a string."""
        value: str = self.values[name]
        return value

    def path(self, name: str) -> str:
        """Return a path in a box, as the model wrote it. Raises `SandboxToolError`."""
        value = self.text(name)
        if not value or "\0" in value:
            raise invalid(f"{name}: {_shown(value)} is no path")
        if len(value.encode()) > _MAX_PATH:
            raise invalid(f"{name}: a path has at most {_MAX_PATH} bytes")
        return value

    def file_path(self, name: str) -> str:
        """Return the path of a file in a box. Links are resolved later, inside the box. A path is
        refused here if its text leads out of `_FOLDERS` before any link is followed. Raises
        `SandboxToolError`."""
        value = self.path(name)
        full = posixpath.normpath(posixpath.join(HOME, value))
        if not any(full == folder or full.startswith(f"{folder}/") for folder in _FOLDERS):
            raise SandboxToolError(
                ErrorCode.PATH_ESCAPE, f"{name}: {value} is outside of {HOME}, /tmp and /app"
            )
        return value

    def flag(self, name: str) -> bool:
        """Return an input that is a boolean."""
        return bool(self.values[name])

    def whole(self, name: str, *, least: int, most: int) -> int | None:
        """Return a whole number, or None if the input does not have it. Raises `SandboxToolError`
        for a number below ``least`` or above ``most``."""
        value = self.values.get(name)
        if value is None:
            return None
        if value != int(value) or not least <= value <= most:
            raise invalid(
                f"{name}: expected a whole number from {least} to {most}, got {_shown(value)}"
            )
        return int(value)

    def seconds(self, name: str, *, most: float) -> float:
        """Return an input as seconds. The model writes it in milliseconds. Raises
        `SandboxToolError` if it is not above 0, or above ``most`` seconds."""
        value = float(self.values[name])
        if value <= 0:
            raise invalid(f"{name}: expected milliseconds above 0, got {_shown(value)}")
        if value > most * 1000:
            raise invalid(f"{name}: {value:g} is above the most that there is, {most * 1000:g}")
        return value / 1000


def read_input(tool: str, given: object) -> ToolInput:
    """Check a call's input. Raises `SandboxToolError` with the code ``unknown_tool`` or
    ``invalid_input``."""
    properties = _PROPERTIES.get(tool)
    if properties is None:
        raise SandboxToolError(ErrorCode.UNKNOWN_TOOL, f"Unknown tool: {tool[:100]}")
    if not isinstance(given, Mapping):
        raise invalid(f"expected an object with the tool's inputs, got {_shown(given)}")
    for name in given:
        if name not in properties:
            close = difflib.get_close_matches(str(name), properties, 1, 0.5)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise invalid(f"{tool} has no input {_shown(name)}{hint}")
    missing = [name for name in _REQUIRED[tool] if name not in given]
    if missing:
        raise invalid(f"{tool} needs {', '.join(missing)}")
    values = {name: each["default"] for name, each in properties.items() if "default" in each}
    for name, value in given.items():
        _check(name, value, properties[name])
    return ToolInput({**values, **given}, frozenset(given))


def _check(name: str, value: object, schema: Mapping[str, Any]) -> None:
    wanted = schema["type"]
    if wanted == "number":
        # A bool is refused here, because in Python a bool is an int. An infinite number is refused
        # too: a JSON text may contain one.
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        fits = fits and math.isfinite(value)  # type: ignore[arg-type]
    else:
        fits = isinstance(value, str if wanted == "string" else bool)
    if not fits:
        raise invalid(f"{name}: expected {_TYPES[wanted]}, got {_shown(value)}")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise invalid(f"{name}: half of a surrogate pair is no text") from None
    if "enum" in schema and value not in schema["enum"]:
        raise invalid(f"{name}: expected {' or '.join(schema['enum'])}, got {_shown(value)}")


def _shown(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = reprlib.repr(value)
    return text.encode("utf-8", "backslashreplace").decode()
