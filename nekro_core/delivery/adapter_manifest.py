"""Reads an adapter's manifest: all that the bot must know before it imports the adapter.

It is the file ``adapter.toml`` in the adapter's folder. Each of its tables is one adapter, by its
name; most folders have one. docs/adapters.md describes every key.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nekro_core.system.errors import NekroError

MANIFEST = "adapter.toml"
CAPABILITIES = frozenset({"confirm", "edit", "page"})
"""What ``capabilities`` may list: the protocols `SupportsConfirmation`, `SupportsEditing`, `Page`.
"""
_LARGEST = 64 * 1024
"""Bytes of a manifest."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)
_PREFIX = re.compile(r"[a-z][a-z0-9_]*_", re.ASCII)
_WORD = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


class ManifestError(NekroError, ValueError):
    """A manifest cannot be used; the text says what it contains, what was expected and what to
    do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterManifest:
    """One adapter, as its manifest describes it.

    Attributes:
        name: What operators write into ``NEKRO_PLATFORMS`` and what its chat keys begin with: a
            lower-case letter, then lower-case letters, digits and ``_``; at most 32 characters.
        folder: The folder of the manifest and the code.
        package: The name by which the folder is imported.
        title: The platform as people know it; the name where none is given.
        always: Whether the adapter runs without being named in ``NEKRO_PLATFORMS``. Only for
            folders; an installed package must be named.
        settings: Prefixes of the names of its settings, in lower case, each ending in ``_``. The
            bot hands it the environment variables with these prefixes.
        settings_as_text: Whether such variables are handed over as text. Otherwise a value that is
            JSON is parsed.
        extra: What ``pip install`` takes to install what the adapter needs; may be empty.
        eraser: The `AdapterEraser` that forgets a person, as ``module:function`` in the folder;
            empty where the adapter stores nothing about people.
        capabilities: Protocols that it supports beyond `Adapter`; a subset of `CAPABILITIES`.
        nonebot_name: What NoneBot's ``SUPERUSERS`` calls the platform, where that is not ``name``.
        bare_superusers: Whether an id in ``SUPERUSERS`` without a platform is one of this platform.
        address_settings: Settings that hold WebSocket addresses of the platform. Their ports are
            open for media at a host in ``NEKRO_DELIVERY__MEDIA__PRIVATE_HOSTS`` without a port.
    """

    name: str
    folder: Path
    package: str
    title: str = ""
    always: bool = False
    settings: tuple[str, ...] = ()
    settings_as_text: bool = False
    extra: str = ""
    eraser: str = ""
    capabilities: frozenset[str] = frozenset()
    nonebot_name: str = ""
    bare_superusers: bool = False
    address_settings: tuple[str, ...] = ()


def read_manifests(folder: Path, package: str) -> list[AdapterManifest]:
    """Read the adapters of a folder that is imported as ``package``, in the order of the file.

    Raises `ManifestError`.
    """
    path = folder / MANIFEST
    try:
        if path.stat().st_size > _LARGEST:
            raise ManifestError(f"{path}: over {_LARGEST} bytes; a manifest takes some lines")
        tables = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ManifestError(
            f"{folder} has no {MANIFEST}: `nekro adapter new` writes one, docs/adapters.md "
            "describes it"
        ) from None
    except OSError as error:
        raise ManifestError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise ManifestError(f"{path} is not TOML: {error}; see docs/adapters.md") from None
    if not tables:
        raise ManifestError(
            f"{path} names no adapter: expected a table, for example [{folder.name}]"
        )
    return [_read(path, package, name, table) for name, table in tables.items()]


def _read(path: Path, package: str, name: str, table: object) -> AdapterManifest:
    if not isinstance(table, dict):
        raise ManifestError(
            f"{path}: {name} = {table!r} stands outside of a table: expected the adapter's name "
            f"above it, for example [{path.parent.name}]"
        )
    if not _NAME.fullmatch(name):
        raise ManifestError(
            f"{path}: the adapter's name {name!r} cannot stand in a chat key: expected at most 32 "
            "lower-case letters, digits and '_', a letter first"
        )
    for key in table:
        if key not in _CHECKS:
            close = difflib.get_close_matches(key, _CHECKS, 1)
            remedy = f"did you mean {close[0]}?" if close else f"there are {', '.join(_CHECKS)}"
            raise ManifestError(f"{path}: [{name}] {key} is not known; {remedy}")
    values = {key: _checked(path, name, key, value) for key, value in table.items()}
    defaults = {"title": name, "settings": (f"{name}_",)}
    return AdapterManifest(name=name, folder=path.parent, package=package, **(defaults | values))


def _checked(path: Path, name: str, key: str, value: object) -> Any:
    kind, fits, expected = _CHECKS[key]
    each = value if kind is list and isinstance(value, list) else [value]
    of_kind = isinstance(value, kind) and (kind is bool or all(isinstance(x, str) for x in each))
    if not of_kind or not all(map(fits, each)):
        raise ManifestError(f"{path}: [{name}] {key} = {value!r}: expected {expected}")
    if key == "capabilities":
        return frozenset(each)
    return tuple(each) if kind is list else value


def _is_prefix(text: str) -> bool:
    return bool(_PREFIX.fullmatch(text)) and not text.startswith("nekro_")


def _is_place(text: str) -> bool:
    return bool(_PLACE.fullmatch(text))


def _is_word(text: str) -> bool:
    return bool(_WORD.fullmatch(text))


_CHECKS: Mapping[str, tuple[type, Callable[[Any], bool], str]] = MappingProxyType(
    {
        "title": (str, str.isprintable, "the platform's name, one line of text"),
        "always": (bool, lambda _: True, "true or false"),
        "settings": (list, _is_prefix, 'a list of beginnings of names, for example ["slack_"]'),
        "settings_as_text": (bool, lambda _: True, "true or false"),
        "extra": (str, str.isprintable, 'what pip installs, for example "nekro-core[telegram]"'),
        "eraser": (str, _is_place, 'a function in a module, for example "erasure:forget"'),
        "capabilities": (
            list,
            CAPABILITIES.__contains__,
            f"a list of some of {', '.join(sorted(CAPABILITIES))}",
        ),
        "nonebot_name": (str, _is_word, "a word in lower case"),
        "bare_superusers": (bool, lambda _: True, "true or false"),
        "address_settings": (
            list,
            _is_word,
            "a list of names of settings in lower case",
        ),
    }
)
"""For each key of a table: its type, a check of the value (or of each in a list), and what is
expected, for the error."""
