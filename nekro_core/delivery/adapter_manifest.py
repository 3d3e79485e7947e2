"""Reads an adapter's manifest: everything that the bot needs before it imports the adapter.

The manifest is the file ``adapter.toml`` in the adapter's folder. Each table in it describes one
adapter, and the table's name is the adapter's name. Most manifests have one table. docs/adapters.md
describes every key.
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
CAPABILITIES = frozenset({"accounts", "confirm", "edit", "page", "reactions", "requests", "typing"})
"""The allowed items of ``capabilities``: the protocols `SupportsAccounts`, `SupportsConfirmation`,
`SupportsEditing`, `Page`, `SupportsReactions`, `SupportsRequests`, `SupportsTyping`."""
_LARGEST = 64 * 1024
"""Maximum size of a manifest in bytes."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}", re.ASCII)
_PREFIX = re.compile(r"[a-z][a-z0-9_]*_", re.ASCII)
_WORD = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


class ManifestError(NekroError, ValueError):
    """A manifest is invalid. The error's text says what the manifest contains, what was expected
    and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterManifest:
    """One adapter, as its manifest describes it.

    Attributes:
        name: The adapter's name. Operators write it into ``NEKRO_PLATFORMS``, and the adapter's
            chat keys begin with it. The name has at most 32 characters: a lower-case letter, then
            lower-case letters, digits and ``_``.
        folder: The folder of the manifest and the code.
        package: The name by which the folder is imported.
        title: The platform's name for people; ``name`` if the manifest gives no title.
        always: Whether the adapter runs without being named in ``NEKRO_PLATFORMS``. Only an adapter
            in a folder can have this; an adapter in an installed package must be named there.
        settings: Prefixes of the adapter's environment variables, in lower case, each ending in
            ``_``. The bot passes the variables with these prefixes to the adapter.
        settings_as_text: Whether the variables of ``settings`` are passed as text. Otherwise a
            value that is valid JSON is parsed.
        extra: The argument of ``pip install`` that installs the adapter's dependencies; may be
            empty.
        eraser: The `AdapterEraser` that deletes a person's data, as ``module:function`` in the
            folder; empty if the adapter stores nothing about people.
        capabilities: Protocols that the adapter implements besides `Adapter`; a subset of
            `CAPABILITIES`.
        nonebot_name: The platform's name in NoneBot's ``SUPERUSERS``, if it differs from ``name``.
        bare_superusers: Whether an id in ``SUPERUSERS`` that names no platform belongs to this
            platform.
        address_settings: Settings that hold WebSocket addresses of the platform. If
            ``NEKRO_DELIVERY__MEDIA__PRIVATE_HOSTS`` lists a host without a port, media may be
            fetched from that host at the ports of these addresses.
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
    """Read the manifest of a folder that is imported as ``package``. Returns the adapters in the
    order of the file.

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
"""For each key of a table: its type, a check of the value (or of each item of a list), and the
error's text about what is expected."""
