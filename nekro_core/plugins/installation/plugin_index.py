"""Reads an index: a JSON or TOML file that lists plugins and the sources from which they can be
installed.

JSON is a list, or an object with the list under ``plugins``; TOML is ``[[plugins]]`` tables::

    [[plugins]]
    name = "dice_cup"                                   # needed
    source = "https://example.org/ann/dice_cup.git#v2"  # needed
    description = "Throws dice."
    version = "2.0"
    author = "ann"
    url = "https://example.org/dice_cup"

``source`` is an address as for ``nekro plugin install``: the address of a git repository, with
``#branch`` or ``#tag`` if needed, or the address of a zip. It may be relative to the address of the
index. Other keys are ignored. A local path is accepted only in an index that is a local file
itself: an index from another machine must not name the operator's files.
"""

import json
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nekro_core.plugins.installation.download import DownloadFailed, download
from nekro_core.system.errors import NekroError

MOST_BYTES = 5_000_000
"""Maximum size of an index in bytes. Ten thousand plugins with descriptions are about 3 MB."""
MOST_PLUGINS = 10_000
_REMOTE = ("http", "https", "ssh", "git")


class IndexRefused(NekroError):
    """An index cannot be read. The text names the address and says what is wrong in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedPlugin:
    """A plugin that an index lists. If it cannot be installed, ``problem`` says why, and ``source``
    is empty."""

    name: str
    source: str
    description: str = ""
    version: str = ""
    author: str = ""
    url: str = ""
    problem: str = ""


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    name: str = Field(min_length=1, max_length=200)
    source: str = Field(min_length=1, max_length=2000)
    description: str = Field(default="", max_length=5000)
    version: str = Field(default="", max_length=100)
    author: str = Field(default="", max_length=200)
    url: str = Field(default="", max_length=2000)


def read_index(address: str) -> tuple[IndexedPlugin, ...]:
    """Read an index at an ``http`` or ``https`` address, or in a local file. Blocks.

    An entry that is wrong is returned with its problem, so that the others can be used. Raises
    `IndexRefused`.
    """
    if urlsplit(address).scheme in ("http", "https"):
        with tempfile.TemporaryDirectory(prefix="nekro-index-") as folder:
            file = Path(folder) / "index"
            try:
                download(address, file, most_bytes=MOST_BYTES)
            except DownloadFailed as error:
                raise IndexRefused(str(error)) from None
            return parse_index(file.read_bytes(), address)
    path = Path(address).expanduser().absolute()
    if not path.is_file():
        raise IndexRefused(
            f"{address!r}: expected an http or https address, or a .json or .toml file"
        )
    if path.stat().st_size > MOST_BYTES:
        raise IndexRefused(f"{address}: it is over {MOST_BYTES} bytes")
    return parse_index(path.read_bytes(), str(path))


def parse_index(data: bytes, address: str) -> tuple[IndexedPlugin, ...]:
    """Parse the bytes of an index. ``address`` is where it was found. Raises `IndexRefused`."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise IndexRefused(f"{address}: it is not UTF-8") from None
    entries = _entries(text, address)
    if not isinstance(entries, list):
        raise IndexRefused(f"{address}: expected a list of plugins, got {type(entries).__name__}")
    if len(entries) > MOST_PLUGINS:
        raise IndexRefused(f"{address}: it lists {len(entries)} plugins, at most {MOST_PLUGINS}")
    return tuple(_indexed(each, number, address) for number, each in enumerate(entries, 1))


def _entries(text: str, address: str) -> Any:
    try:
        if text.lstrip()[:1] in ("{", "[") and not text.lstrip().startswith("[["):
            found = json.loads(text)
        else:
            found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise IndexRefused(f"{address}: it is not valid JSON or TOML: {error}") from None
    if isinstance(found, dict):
        return found.get("plugins")
    return found


def _indexed(entry: Any, number: int, address: str) -> IndexedPlugin:
    try:
        read = _Entry.model_validate(entry)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        name = entry.get("name") if isinstance(entry, dict) else None
        return IndexedPlugin(
            name=name[:200] if isinstance(name, str) else "",
            source="",
            problem=f"entry {number}: {f'{where}: ' if where else ''}{fault['msg']}",
        )
    source, problem = _source(read.source, address)
    return IndexedPlugin(
        name=read.name,
        source=source,
        description=read.description,
        version=read.version,
        author=read.author,
        url=read.url if urlsplit(read.url).scheme in ("http", "https") else "",
        problem=problem and f"entry {number}: {problem}",
    )


def _source(source: str, address: str) -> tuple[str, str]:
    """Return the source in the form for `parse`, and an empty text; or an empty text, and the
    reason why the source cannot be used."""
    plain = source.removeprefix("git+")
    scheme = urlsplit(plain).scheme
    is_ssh = not scheme and "@" in plain.partition(":")[0] and ":" in plain
    if scheme in _REMOTE or is_ssh:
        return source, ""
    if urlsplit(address).scheme not in ("http", "https"):
        local = Path(address).parent / Path(plain).expanduser()
        return (source if scheme else str(local)), ""
    if scheme or plain.startswith(("/", "~", "\\")):
        return "", f"source: {source!r} names a file of this machine: expected an address"
    return urljoin(address, plain), ""
