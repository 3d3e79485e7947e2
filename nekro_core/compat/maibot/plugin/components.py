"""Reads the components of a plugin from the dicts that its `get_components` returns.

The SDK makes these dicts, or a plugin makes them itself.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nekro_core.tools.problem import PluginProblem, ProblemSeverity

MOST_COMPONENTS = 500
"""How many components a plugin may have. The largest known plugin has a few dozen tools."""

_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "TOOL": (
        "core_tool",
        "visibility",
        "timeout_ms",
        "platforms",
        "parameters",
        "description",
        "brief_description",
        "detailed_description",
    ),
    "COMMAND": ("permission", "intercept_message_level", "aliases", "timeout_ms"),
    "API": ("version", "public"),
    "EVENT_HANDLER": ("event_type", "intercept_message", "weight"),
    "HOOK_HANDLER": ("mode", "order", "timeout_ms", "error_policy"),
    "MESSAGE_GATEWAY": ("platform", "protocol", "account_id", "scope"),
}
_FIELDS = frozenset(
    {
        "handler_name",
        "enabled",
        "parameters_raw",
        "invoke_method",
        "command_pattern",
        "pattern",
        "hook",
        "route_type",
        "action_parameters",
        "action_prompt",
        "action_require",
        "activation_type",
        "description",
        "dynamic",
        "version",
    }
)
"""The keys that the SDK may write into a component's dict."""
_ALIASES = {"ACTION": "TOOL"}
_CLOSE = 0.8


@dataclass(frozen=True, slots=True)
class MaiBotComponent:
    """A component of a plugin. ``type`` is the SDK's name for its kind, in capital letters."""

    name: str
    type: str
    metadata: Mapping[str, Any]

    @property
    def handler(self) -> str:
        """The name of the method that is called. If the plugin has no such method,
        `invoke_component` is called instead."""
        return str(self.metadata.get("handler_name") or self.name)

    @property
    def description(self) -> str:
        """The author's description."""
        return str(self.metadata.get("description") or "")

    def flag(self, key: str, *, default: bool = False) -> bool:
        """An option as a bool. Texts such as ``"true"`` are accepted."""
        value = self.metadata.get(key, default)
        if isinstance(value, str):
            return value.strip().lower() in {"true", "1", "yes", "on"}
        return bool(value)

    def number(self, key: str, default: int = 0) -> int:
        """An option as a whole number. If the option is not a number, this is the default."""
        try:
            return int(self.metadata.get(key) or default)
        except (TypeError, ValueError):
            return default

    def words(self, key: str) -> tuple[str, ...]:
        """An option as texts. A single text is treated as a list with one text."""
        value = self.metadata.get(key) or ()
        values = [value] if isinstance(value, str) else value
        return tuple(str(each) for each in values) if isinstance(values, Iterable) else ()


def components_of(
    declared: Iterable[Any], where: str
) -> tuple[list[MaiBotComponent], list[PluginProblem]]:
    """Return the valid components in their order, and the problems of the invalid components."""
    components: dict[tuple[str, str, str], MaiBotComponent] = {}
    problems: list[PluginProblem] = []

    def refuse(message: str, remedy: str = "") -> None:
        problems.append(
            PluginProblem(
                severity=ProblemSeverity.ERROR, message=message, where=where, remedy=remedy
            )
        )

    for raw in declared:
        if len(components) == MOST_COMPONENTS:
            refuse(f"it has more than {MOST_COMPONENTS} components: the others are left out")
            break
        component = _component(raw)
        if component is None:
            refuse(f"a component of get_components() is {raw!r:.80}", "a dict with name and type")
            continue
        if typo := _typo(component):
            refuse(*typo)
            continue
        version = str(component.metadata.get("version", "")) if component.type == "API" else ""
        key = (component.type, component.name, version)
        if key in components:
            refuse(f"{component.type} {component.name!r} is there twice", "give one another name")
            continue
        if component.flag("enabled", default=True):
            components[key] = component
    return list(components.values()), problems


def _component(raw: Any) -> MaiBotComponent | None:
    if not isinstance(raw, Mapping):
        return None
    name = str(raw.get("name") or "").strip()
    kind = str(getattr(raw.get("type"), "value", raw.get("type")) or "").strip().upper()
    metadata = raw.get("metadata")
    if not name or not kind or not isinstance(metadata, Mapping | None):
        return None
    merged = {
        key: value
        for key, value in raw.items()
        if key not in ("name", "type", "metadata") and value is not None
    }
    return MaiBotComponent(name, _ALIASES.get(kind, kind), {**merged, **(metadata or {})})


def _typo(component: MaiBotComponent) -> tuple[str, str] | None:
    """Return a problem and its remedy if an unknown option looks like a misspelled known option.
    Other unknown options are allowed, because the SDK lets authors add metadata."""
    known = _OPTIONS.get(component.type, ())
    for name in component.metadata:
        if name in known or name in _FIELDS:
            continue
        close = difflib.get_close_matches(str(name), known, 1, _CLOSE)
        if close and not component.metadata.get(close[0]):
            message = f"{component.type} {component.name!r}: there is no option {name!r}"
            return message, f"did you mean {close[0]!r}?"
    return None
