"""Removes the classes of unloaded plugins from caches of libraries."""

import importlib
import sys
import typing
from collections.abc import Callable, MutableMapping
from typing import Any

_MEMORIES = ("fastapi.dependencies.models", "fastapi._compat.v2")
"""Modules with functions that cache their results. The keys of these caches are functions that
handle routes; a cache has up to 4,096 keys."""


def forget_types(gone: Callable[[str], bool]) -> None:
    """Remove the classes of unloaded modules from caches of libraries. Otherwise the caches would
    keep the classes for ever. ``gone`` returns whether the module with a given name is unloaded."""
    # typing caches the newest 128 objects of each kind, such as List[Place]. Clearing these caches
    # is safe: the objects are made again when needed.
    for clean in getattr(typing, "_cleanups", ()):
        clean()
    for module in filter(None, map(sys.modules.get, _MEMORIES)):
        for each in [*vars(module).values()]:
            if callable(clear := getattr(each, "cache_clear", None)):
                clear()
    # pydantic's cache holds its values by weak references. But the key of an entry may hold the
    # same class as the value by a normal reference, so the class would stay.
    cache = _pydantic_cache()
    # Iterating over a `WeakValueDictionary` fails if a thread that imports a module adds an entry
    # meanwhile. The keys of the dict inside are copied in one step.
    for key in [*getattr(cache, "data", cache)]:
        if any(gone(str(each.__module__)) for each in _classes(key)):
            cache.pop(key, None)


def _pydantic_cache() -> MutableMapping[Any, Any]:
    try:
        cache = importlib.import_module("pydantic._internal._generics")._GENERIC_TYPES_CACHE  # noqa: SLF001 (it has no public name)
        found = cache.get() if hasattr(cache, "reset") else cache
    except (ImportError, AttributeError):  # Another version of pydantic has no such cache.
        return {}
    return found if isinstance(found, MutableMapping) else {}


def _classes(key: Any) -> list[type]:
    if isinstance(key, tuple):
        return [each for part in key for each in _classes(part)]
    return [key] if isinstance(key, type) else []
