"""Manages the folder with the packages of all plugins. On ``sys.path``, this folder comes after the
bot's own packages.

Each change makes a new numbered folder and then writes its number into a note file. So an import
that runs during a change sees either the old folder or the complete new one. Old folders are
deleted only at the next start, because modules that were imported from them may import submodules
later.
"""

import fcntl
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from loguru import logger

from nekro_core.plugins.packages.errors import PackagesRefused
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.folder_listings import forget_listings

if TYPE_CHECKING:  # these imports take 50 ms, and most bots do not need them
    from packaging.requirements import Requirement

    from nekro_core.plugins.packages.requirements import PluginRequirement

FOLDER = "plugin_packages"
"""The name of the folder below the data folder."""
_NOTE = "shelf.json"
_PYTHON_PATH = "PYTHONPATH"
_PIP = "newer-pip"
"""The name of a folder with a newer pip, for use if the bot's environment has no pip or one that is
too old."""


class _Note(msgspec.Struct, frozen=True):
    """The note. ``number`` is the name of the present folder; 0 if there are no packages. ``needs``
    maps plugins to requirements, ``held`` maps packages to versions, ``digests`` maps packages to
    the hashes of the files from which they were installed."""

    number: int = 0
    needs: dict[str, list[str]] = {}
    held: dict[str, str] = {}
    digests: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class StalePackage:
    """A package whose imported version is not the installed version. The installed version is
    imported at the next start."""

    name: str
    running: str
    there: str

    def __str__(self) -> str:
        there = f"{self.there} is there" if self.there else "it was removed"
        return f"{self.name} {self.running} runs, {there}: it changes at the next start"


class PackageFolder:
    """The packages of one data folder. Several threads and processes may use it at once.

    ``index`` is the URL of a package index; empty uses pip's own configuration. ``builds`` lets pip
    build packages that have no wheel, which runs their authors' code. ``limit_s`` is the time limit
    of each run of pip. Methods that change packages block: call them in a thread.
    """

    def __init__(
        self, data_dir: Path, *, index: str = "", builds: bool = False, limit_s: float = 600.0
    ) -> None:
        self._folder = data_dir.absolute() / FOLDER
        self._index = index
        self._builds = builds
        self._limit_s = limit_s
        self._on_path = ""
        self._running: dict[str, str] = {}
        self._stale: tuple[StalePackage, ...] = ()
        self._needing: frozenset[str] = frozenset()

    @property
    def needs(self) -> Mapping[str, Sequence[str]]:
        """The requirements of each plugin after the last successful change."""
        return self._note().needs

    @property
    def held(self) -> Mapping[str, str]:
        """The installed packages with their versions, without the bot's own packages."""
        return self._note().held

    def has(self, wanted: "Requirement") -> bool:
        """Return True if the bot or this folder has a package that meets a requirement."""
        from nekro_core.plugins.packages import own_environment  # noqa: PLC0415 - seldom needed

        if own_environment.bot_version(wanted.name):
            return own_environment.bot_meets(wanted)
        version = self.held.get(_canonical(wanted.name), "")
        return bool(version) and wanted.specifier.contains(version, prereleases=True)

    def ensure(
        self,
        plugin: str,
        needs: "Iterable[PluginRequirement]",
        *,
        more: bool = False,
        gone: Collection[str] = (),
    ) -> dict[str, str]:
        """Install the packages that a plugin needs, in versions that also suit the other plugins.
        The requirements of the plugins in ``gone`` are dropped.

        ``needs`` replaces the plugin's earlier requirements or, with ``more``, is added to them.
        Returns the new and changed packages with their versions. Raises `PackagesRefused`, whose
        message names both sides of a conflict; after this error, nothing was changed.
        """
        with self._locked():
            note = self._note()
            wanted = [str(need.requirement) for need in needs]
            if more:
                wanted = [*dict.fromkeys([*note.needs.get(plugin, ()), *wanted])]
            if not wanted and plugin not in note.needs:
                return {}
            every = {**note.needs, plugin: wanted}
            every = {who: texts for who, texts in every.items() if who not in gone}
            if not wanted:
                del every[plugin]
            return self._change(note, every)

    def forget(self, plugin: str) -> None:
        """Remove a plugin's requirements, and the packages that only this plugin needed. Raises
        `PackagesRefused`."""
        self.ensure(plugin, ())

    def lend_to(self, data_dir: Path) -> None:
        """Let the bot of another, empty data folder use these packages. Packages that this
        other bot adds are not added to this folder. Raises `PackagesRefused` and `OSError`."""
        note, other = self._note(), data_dir.absolute() / FOLDER
        other.mkdir(parents=True)
        if note.number:
            (other / str(note.number)).symlink_to(self._folder / str(note.number))
            write_whole(other / _NOTE, msgspec.json.encode(note))

    @contextmanager
    def on_path(self) -> Iterator[None]:
        """While the block is open, have the packages on ``sys.path``, after the bot's own. Only the
        process that holds the data folder's lock may call this, because it deletes the folders that
        earlier processes used."""
        note = self._readable_note()
        for old in self._folder.glob("[0-9]*"):
            if old.name != str(note.number):
                shutil.rmtree(old, ignore_errors=True)
        self.refresh()
        try:
            yield
        finally:
            if self._on_path in sys.path:
                sys.path.remove(self._on_path)
            _show_to_programs(self._on_path, "")
            self._on_path = ""

    def refresh(self) -> tuple[StalePackage, ...]:
        """Use the present folder, which another process may have changed. Returns the packages
        whose imported version is not the installed version."""
        note = self._readable_note()
        now = str(self._folder / str(note.number)) if note.number else ""
        if now != self._on_path:
            self._remember_running(self._on_path)
            if self._on_path in sys.path:
                sys.path.remove(self._on_path)
            if now:
                sys.path.append(now)
            _show_to_programs(self._on_path, now)
            self._on_path = now
            if now:
                forget_listings(Path(now))
        self._needing = frozenset(note.needs)
        self._stale = tuple(
            StalePackage(name, version, note.held.get(name, ""))
            for name, version in sorted(self._running.items())
            if note.held.get(name, "") != version
        )
        return self._stale

    @property
    def stale(self) -> tuple[StalePackage, ...]:
        """The packages that the last `refresh` returned."""
        return self._stale

    def stale_for(self, plugin: str) -> tuple[StalePackage, ...]:
        """Return the same as `stale` if the plugin needs packages; otherwise an empty tuple."""
        return self._stale if plugin in self._needing else ()

    def _remember_running(self, folder: str) -> None:
        """Remember which packages were imported from a folder before the folder is removed from
        ``sys.path``. Python continues to use the version that was imported first."""
        if not folder:
            return
        files = [str(getattr(each, "__file__", "") or "") for each in [*sys.modules.values()]]
        roots = {
            Path(file).relative_to(folder).parts[0] for file in files if file.startswith(folder)
        }
        roots = {root.removesuffix(".py") for root in roots}
        for info in Path(folder).glob("*.dist-info"):
            name, _, version = info.name.removesuffix(".dist-info").partition("-")
            if roots & _modules_of(info):
                self._running.setdefault(_canonical(name), version)

    def _change(self, note: _Note, every: dict[str, list[str]]) -> dict[str, str]:
        from nekro_core.plugins.packages.install import install_packages  # noqa: PLC0415 - seldom needed
        from nekro_core.plugins.packages.pip import Pip  # noqa: PLC0415 - seldom needed

        number = max([note.number, *self._numbers()]) + 1
        target = self._folder / str(number)
        try:
            pip = Pip(
                self._folder / _PIP,
                index=self._index,
                builds=self._builds,
                limit_s=self._limit_s,
            )
            pinned = install_packages(target, every, note.held, pip=pip, builds=self._builds)
        except PackagesRefused:
            shutil.rmtree(target, ignore_errors=True)
            raise
        except OSError as error:
            shutil.rmtree(target, ignore_errors=True)
            raise PackagesRefused(f"packages cannot be written: {error}") from None
        held = {each.name: each.version for each in pinned}
        if held == note.held:
            self._write(msgspec.structs.replace(note, needs=every))
            return {}
        digests = {each.name: each.digest for each in pinned}
        number = number if held else 0
        self._write(_Note(number=number, needs=every, held=held, digests=digests))
        return {name: version for name, version in held.items() if note.held.get(name) != version}

    def _numbers(self) -> list[int]:
        return [int(each.name) for each in self._folder.glob("[0-9]*") if each.name.isdecimal()]

    def _note(self) -> _Note:
        try:
            return msgspec.json.decode((self._folder / _NOTE).read_bytes(), type=_Note)
        except FileNotFoundError:
            return _Note()
        except msgspec.MsgspecError as error:
            raise PackagesRefused(
                f"{self._folder / _NOTE}: cannot be read ({error}); remove the folder "
                f"{self._folder} and install the plugins again"
            ) from None

    def _readable_note(self) -> _Note:
        """Return the note. If it cannot be read, return an empty note; the bot then runs without
        packages."""
        try:
            return self._note()
        except PackagesRefused as error:
            logger.error("the bot runs without plugins' packages: {}", error)
            return _Note()

    def _write(self, note: _Note) -> None:
        write_whole(self._folder / _NOTE, msgspec.json.format(msgspec.json.encode(note)))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _canonical(name: str) -> str:
    """Normalize a package's name (the packaging specifications, "Names")."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _modules_of(info: Path) -> set[str]:
    """Get the importable names of an installed package."""
    try:
        lines = (info / "RECORD").read_text("utf-8").splitlines()
    except OSError:
        return set()
    first = {line.partition(",")[0].partition("/")[0] for line in lines}
    return {name.removesuffix(".py") for name in first if not name.endswith(".dist-info")}


def _show_to_programs(before: str, now: str) -> None:
    """Let Python programs that plugins start find the packages of the folder ``now`` instead of
    those of ``before``. If a plugin runs pip to install one of its packages, pip then finds the
    package and does not change the bot's environment."""
    parts = [each for each in os.environ.get(_PYTHON_PATH, "").split(os.pathsep) if each]
    parts = [each for each in parts if each != before] + ([now] if now else [])
    if parts:
        os.environ[_PYTHON_PATH] = os.pathsep.join(parts)
    else:
        os.environ.pop(_PYTHON_PATH, None)
