"""Reports which functions of the bot and of shared libraries a plugin has replaced. The old
functions are not restored, because other code may already depend on the new ones.

A `PatchDetector` remembers the functions, classes and methods of the bot and of shared libraries,
and compares them after plugins were loaded.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from nekro_core.plugins.host.isolation.code_owner import plugin_of_module
from nekro_core.tools.problem import PluginProblem, ProblemSeverity

_SHARED = frozenset(
    {"nekro_core", "nonebot", "httpx", "aiohttp", "requests", "asyncio", "builtins", "io", "json"}
    | {"logging", "os", "pathlib", "random", "shutil", "signal", "socket", "ssl", "subprocess"}
    | {"tempfile", "threading", "time"}
)
"""The packages that are compared. A replaced function in them affects other plugins and the bot."""
_MOST_TOLD = 8
_KINDS = (FunctionType, BuiltinFunctionType, MethodType, type, staticmethod, classmethod, property)


class PatchDetector:
    """Remembers which object each name of the shared modules refers to, and finds replaced
    objects."""

    def __init__(self) -> None:
        self._names: dict[str, Mapping[str, Any]] = {}

    def changes(self) -> dict[str, str]:
        """Find the objects that were replaced since the last call. Returns a mapping from the full
        name of each object to the module that defines the new object. The first call finds nothing.
        A call takes about ten milliseconds."""
        found = {}
        now = dict(_names())
        for holder, names in now.items():
            before = self._names.get(holder, names)
            if before.keys() == names.keys() and all(map(_same, before.values(), names.values())):
                continue
            for name, value in before.items():
                if isinstance(value, _KINDS) and names.get(name) is not value:
                    found[f"{holder}.{name}"] = _origin(names.get(name))
        self._names = now
        return found


def patch_problem(found: Mapping[str, str], key: str) -> PluginProblem:
    """Make the warning about replaced functions for the author and the operator."""
    names = sorted(found)
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return PluginProblem(
        severity=ProblemSeverity.WARNING,
        message=f"it replaces {', '.join(names[:_MOST_TOLD])}{more} for the whole bot",
        remedy=f"leave what is others' as it is; only a restart without {key} undoes this",
    )


def by_plugin(found: Mapping[str, str], items: Collection[str]) -> dict[str, dict[str, str]]:
    """Group replaced names by plugin. ``items`` are the plugins that were loaded since the last
    check. If a new object is not defined in a module of a plugin, it is assigned to the only plugin
    that was loaded; if several were loaded, to the empty name."""
    alone = next(iter(items)) if len(items) == 1 else ""
    sorted_out: dict[str, dict[str, str]] = {}
    for name, origin in found.items():
        item = plugin_of_module(origin)
        sorted_out.setdefault(item if item in items else alone, {})[name] = origin
    return sorted_out


def _same(one: Any, other: Any) -> bool:
    return one is other


def _names() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the names in each shared module, and in each class that the module defines."""
    for name, module in sys.modules.copy().items():  # other threads may import
        if name.partition(".")[0] not in _SHARED or not isinstance(module, ModuleType):
            continue
        inside = vars(module).copy()
        yield name, inside
        for attribute, value in inside.items():
            if isinstance(value, type) and value.__module__ == name:
                yield f"{name}.{attribute}", dict(vars(value))


def _origin(value: Any) -> str:
    inner = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
    return str(getattr(inner, "__module__", ""))
