"""Removes the classes of unloaded plugins from caches of libraries."""

import importlib
import sys
import typing
from collections.abc import Callable, MutableMapping
from typing import Any

_MEMORIES = ("fastapi.dependencies.models", "fastapi._compat.v2")
"""Modules whose functions cache their arguments, up to 4,096 functions of routes."""


def forget_types(gone: Callable[[str], bool]) -> None:
    """Remove types from caches that never drop them. ``gone`` says for a module's name whether its
    types are removed."""
    # typing caches the newest 128 of each of its forms (List[Place]). They are made again on use.
    for clean in getattr(typing, "_cleanups", ()):
        clean()
    for module in filter(None, map(sys.modules.get, _MEMORIES)):
        for each in [*vars(module).values()]:
            if callable(clear := getattr(each, "cache_clear", None)):
                clear()
    # pydantic's cache has weak values, but the key of a generic model that holds itself is itself.
    cache = _pydantic_cache()
    for key in [*cache]:
        if any(gone(str(each.__module__)) for each in _classes(key)):
            cache.pop(key, None)


def _pydantic_cache() -> MutableMapping[Any, Any]:
    try:
        cache = importlib.import_module("pydantic._internal._generics")._GENERIC_TYPES_CACHE  # noqa: SLF001 (no public way)
        found = cache.get() if hasattr(cache, "reset") else cache
    except (ImportError, AttributeError):  # Another version of pydantic: its cache is left alone.
        return {}
    return found if isinstance(found, MutableMapping) else {}


def _classes(key: Any) -> list[type]:
    if isinstance(key, tuple):
        return [each for part in key for each in _classes(part)]
    return [key] if isinstance(key, type) else []
