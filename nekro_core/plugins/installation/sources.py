"""Fetches the files of a plugin from a folder, a file, a zip (here or at an address), or a git
repository."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nekro_core.plugins.installation.download import DownloadFailed, download
from nekro_core.plugins.installation.files import MOST_BYTES, copy_files
from nekro_core.plugins.installation.git import GitFailed, clone
from nekro_core.plugins.installation.inspection import MANIFEST, inspect_plugin
from nekro_core.plugins.installation.unpack import unpack
from nekro_core.plugins.packages.requirements import LISTS, has_lists
from nekro_core.system.errors import NekroError

Kind = Literal["folder", "file", "zip", "git"]
_GIT = re.compile(r"(git\+\w+://|(https?|ssh|git|file)://|[\w.-]+@[\w.-]+:)")
_ZIP = re.compile(r"https?://[^#]*\.zip([?][^#]*)?\Z", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z", re.ASCII)
_PASSWORD = re.compile(r"\A(https?://|\w+://[^/:@]*:)[^/@]*@")
"""Finds the secret part of an address. In an HTTP address, a user name without a password may be a
token, so it is hidden too. In an ssh address, the user name is no secret."""
_NO_PLUGIN = frozenset({"setup.py", "conftest.py", "noxfile.py", "bot.py"})


class SourceRefused(NekroError):
    """Nothing can be installed from this source. The message says why and what is expected."""


@dataclass(frozen=True, slots=True)
class PluginSource:
    """The source of a plugin. ``ref`` is the branch or tag that the operator wrote after ``#``;
    ``address`` does not contain it."""

    kind: Kind
    address: str
    ref: str = ""

    def __str__(self) -> str:
        """The source as text for people. A password or token in the address is replaced by
        ``***``."""
        shown = _PASSWORD.sub(r"\1***@", self.address) if "://" in self.address else self.address
        return f"{shown}#{self.ref}" if self.ref else shown


@dataclass(frozen=True, slots=True)
class FetchedPlugin:
    """A plugin whose files are on this machine but not installed yet.

    It will be imported as ``name``. ``commit`` is git's commit id, or empty for other sources.
    """

    path: Path
    name: str
    commit: str = ""


def parse(text: str) -> PluginSource:
    """Parse a source, as an operator writes it. A relative path becomes absolute. Raises
    `SourceRefused`."""
    if _ZIP.match(text):
        return PluginSource("zip", text)
    if _GIT.match(text):
        address, _, ref = text.partition("#")
        address = address.removeprefix("git+")
        if ref.startswith("-") or not re.fullmatch(r"[\w./-]*", ref):
            raise SourceRefused(f"{ref!r} is not a branch or tag")
        return PluginSource("git", address, ref)
    path = Path(text).expanduser().absolute()
    if path.is_dir():
        return PluginSource("folder", str(path))
    if path.is_file() and path.suffix.lower() == ".zip":
        return PluginSource("zip", str(path))
    if path.is_file() and path.suffix == ".py":
        return PluginSource("file", str(path))
    raise SourceRefused(
        f"{text!r}: expected a folder, a .py, a .zip or its address, or a git address "
        "(https://host/name.git or git+file:///folder, and #branch at its end to choose a branch)"
    )


def fetch(source: PluginSource, target: Path) -> FetchedPlugin:
    """Copy a plugin's files from their source into the empty folder ``target``. Blocks until the
    copy is complete. Raises `SourceRefused` and `FilesRefused`."""
    commit = ""
    files = target / "files"
    if (
        source.kind != "git"
        and not _ZIP.match(source.address)
        and not Path(source.address).exists()
    ):
        raise SourceRefused(
            f"{source} is not on this machine (in a cluster, the plugin may have been installed at "
            "another one): name another source"
        )
    match source.kind:
        case "file":
            path = Path(source.address)
            copied = target / path.name
            copied.write_bytes(path.read_bytes())
            return FetchedPlugin(copied, _name(copied, path.stem))
        case "folder":
            copy_files(Path(source.address), files)
        case "zip":
            archive = Path(source.address)
            if _ZIP.match(source.address):
                archive = target / "downloaded.zip"
                try:
                    download(source.address, archive, most_bytes=MOST_BYTES)
                except DownloadFailed as error:
                    raise SourceRefused(str(error)) from None
            unpack(archive, files)
        case "git":
            try:
                commit = clone(source.address, source.ref, target / "clone")
            except GitFailed as error:
                raise SourceRefused(str(error)) from None
            copy_files(target / "clone", files)
    last = source.address.partition("?")[0].rstrip("/").rpartition("/")[2]
    stem = re.sub(r"\.(git|zip)$", "", last)
    found = plugin_of(files)
    if found.is_dir() and found != files and not has_lists(found):
        for name in LISTS:
            if (files / name).is_file():
                shutil.copyfile(files / name, found / name)
    return FetchedPlugin(found, _name(found, stem if found == files else found.stem), commit)


def plugin_of(place: Path) -> Path:
    """Return ``place`` if it is a plugin or a file. Otherwise return the only plugin in the folder
    ``place``: in many repositories, the plugin is a folder beside the tests and the lists of
    packages. Raises `SourceRefused`."""
    if not place.is_dir():
        return place
    if _is_plugin(place):
        return place
    inner = [each for each in sorted(place.iterdir()) if each.is_dir() and _is_plugin(each)]
    inner = [each for each in inner if each.name not in ("tests", "test", "docs")]
    inner += [
        each
        for each in sorted(place.glob("*.py"))
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
    """Return the module name for the plugin: the name in its files if they contain one, otherwise
    ``otherwise``.

    Characters that a module name cannot contain are replaced by "_". Raises `SourceRefused`.
    """
    key = inspect_plugin(plugin).key
    for wanted in (key.rpartition(".")[2], otherwise):
        name = re.sub(r"[^A-Za-z0-9_]", "_", wanted)
        if _NAME.match(name):
            return name
    raise SourceRefused(
        f"{otherwise!r} cannot be a plugin's name: expected letters, digits and '_', a letter first"
    )
