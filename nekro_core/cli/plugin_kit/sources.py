"""Fetches a plugin from its source: a folder, a file, a zip, or a git repository."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nekro_core.cli.plugin_kit.files import FilesRefused, copy_files
from nekro_core.cli.plugin_kit.git import GitFailed, clone
from nekro_core.cli.plugin_kit.inspection import MANIFEST, inspect_plugin
from nekro_core.cli.plugin_kit.unpack import unpack
from nekro_core.system.errors import NekroError

Kind = Literal["folder", "file", "zip", "git"]
_GIT = re.compile(r"(git\+\w+://|(https?|ssh|git|file)://|[\w.-]+@[\w.-]+:)")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z", re.ASCII)
_PASSWORD = re.compile(r"\A(https?://|\w+://[^/:@]*:)[^/@]*@")
"""The secret part of an address. Over HTTP a user name may be a token; over ssh it is no secret."""
_NO_PLUGIN = frozenset({"setup.py", "conftest.py", "noxfile.py", "bot.py"})


class SourceRefused(NekroError):
    """Nothing can be installed from the source. The text says why and what is expected."""


@dataclass(frozen=True, slots=True)
class PluginSource:
    """A plugin's source. ``address`` has no ``#ref``; ``ref`` is the branch or tag."""

    kind: Kind
    address: str
    ref: str = ""

    def __str__(self) -> str:
        """Return the source to show to people, without a password or a token in the address."""
        shown = _PASSWORD.sub(r"\1***@", self.address) if self.kind == "git" else self.address
        return f"{shown}#{self.ref}" if self.ref else shown


@dataclass(frozen=True, slots=True)
class FetchedPlugin:
    """A copy of a plugin's files, not yet among the bot's plugins. ``name`` is its import name,
    ``commit`` is git's."""

    path: Path
    name: str
    commit: str = ""


def parse(text: str) -> PluginSource:
    """Parse a source as an operator writes it. Paths become absolute. Raises `SourceRefused`."""
    if _GIT.match(text):
        address, _, ref = text.partition("#")
        address = address.removeprefix("git+")
        if ref.startswith("-") or not re.fullmatch(r"[\w./-]*", ref):
            raise SourceRefused(f"{ref!r} is no branch or tag")
        return PluginSource("git", address, ref)
    path = Path(text).expanduser().absolute()
    if path.is_dir():
        return PluginSource("folder", str(path))
    if path.is_file() and path.suffix.lower() == ".zip":
        return PluginSource("zip", str(path))
    if path.is_file() and path.suffix == ".py":
        return PluginSource("file", str(path))
    raise SourceRefused(
        f"{text!r}: expected a folder, a .py, a .zip, or a git address "
        "(https://host/name.git, git+file:///folder, with #branch behind it if need be)"
    )


def fetch(source: PluginSource, target: Path) -> FetchedPlugin:
    """Copy a plugin's files below an empty folder. Blocks. Raises `SourceRefused` and
    `FilesRefused`."""
    commit = ""
    files = target / "files"
    match source.kind:
        case "file":
            path = Path(source.address)
            copied = target / path.name
            copied.write_bytes(path.read_bytes())
            return FetchedPlugin(copied, _name(copied, path.stem))
        case "folder":
            copy_files(Path(source.address), files)
        case "zip":
            unpack(Path(source.address), files)
            list_checked(files)
        case "git":
            try:
                commit = clone(source.address, source.ref, target / "clone")
            except GitFailed as error:
                raise SourceRefused(str(error)) from None
            copy_files(target / "clone", files)
    stem = re.sub(r"\.(git|zip)$", "", source.address.rstrip("/").rpartition("/")[2])
    found = _plugin_in(files)
    return FetchedPlugin(found, _name(found, stem if found == files else found.stem), commit)


def list_checked(folder: Path) -> None:
    """Refuse a folder without files; an archive may hold folders alone."""
    if not folder.is_dir():
        raise FilesRefused("there is no file in it")


def _plugin_in(folder: Path) -> Path:
    """Return the plugin of a folder: the folder itself, or the only plugin in it."""
    if _is_plugin(folder):
        return folder
    inner = [each for each in sorted(folder.iterdir()) if each.is_dir() and _is_plugin(each)]
    inner = [each for each in inner if each.name not in ("tests", "test", "docs")]
    inner += [
        each
        for each in sorted(folder.glob("*.py"))
        if each.name not in _NO_PLUGIN and b"NekroPlugin" in each.read_bytes()
    ]
    if len(inner) == 1:
        return inner[0]
    names = ", ".join(each.name for each in inner)
    raise SourceRefused(
        f"there are several plugins in it ({names}): name the folder of one"
        if inner
        else "there is no plugin in it: expected an __init__.py with a NekroPlugin, or a "
        f"{MANIFEST} with a plugin.py"
    )


def _is_plugin(folder: Path) -> bool:
    return (folder / "__init__.py").is_file() or (folder / MANIFEST).is_file()


def _name(plugin: Path, otherwise: str) -> str:
    """Return the plugin's import name: from its key, else from its file or folder."""
    key = inspect_plugin(plugin).key
    for wanted in (key.rpartition(".")[2], otherwise):
        name = re.sub(r"[^A-Za-z0-9_]", "_", wanted)
        if _NAME.match(name):
            return name
    raise SourceRefused(
        f"{otherwise!r} cannot be a plugin's name: letters, digits and '_', a letter first"
    )
