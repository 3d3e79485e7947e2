"""The Python packages that every box can import: numpy, pandas, matplotlib and others.

`SharedPackages` is the interface that all backends offer. `BoxPackages` implements it for the jail:
for each version of Python, the packages are fetched once into a folder that all boxes see
read-only. The folder exists from the start and is empty at first. So a box that was made before the
packages were fetched can import them too. ``box_packages.txt`` has the versions of the packages.
"""

import os
import platform
import shutil
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from nekro_core.sandbox.package_fetch import (
    COMPLETE,
    NAMES,
    PLACE,
    PackagesUnavailable,
    Run,
    failure_of,
    fetch_packages,
    in_order,
    locked,
    note_failure,
    packages_tag,
    run_slowly,
)

_COMPILE_S = 900.0


class SharedPackages(Protocol):
    """The packages that the boxes of a backend can import in addition to those of their image."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which code in boxes of the default image can import packages; empty until
        the packages are fetched."""

    @property
    def failure(self) -> str:
        """Why the last attempt to fetch the packages failed, and what to do; empty if it did not
        fail."""

    @property
    def place(self) -> str:
        """Where the packages are kept, in words for operators."""

    async def fetch(self) -> None:
        """Fetch the packages, if they are not there yet. This takes a minute or more. If another
        process fetches them, this call waits for that process. If this call is cancelled, its child
        processes end. Raises `PackagesUnavailable`."""


@lru_cache(16)
def _complete_file(parent: Path, tag: str) -> Path:
    """Return the file that exists if the packages are fetched. Each prompt looks for it."""
    return parent / tag / COMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxPackages:
    """The packages for boxes with one version of Python, in a folder of this machine.

    Attributes:
        parent: The folder that holds the packages of all versions. Any user can read it.
        executable: The path of the Python that runs in the boxes.
        version: The version of this Python.
    """

    parent: Path
    executable: str
    version: tuple[int, int]

    @property
    def tag(self) -> str:
        """The name of `folder`. It names the version of Python and the kind of machine, and changes
        with the list of packages."""
        return packages_tag(self.version, platform.machine())

    @property
    def folder(self) -> Path:
        """The folder on this machine that boxes see as `PLACE`, read-only."""
        return self.parent / self.tag

    @property
    def place(self) -> str:
        """See `SharedPackages.place`."""
        return str(self.folder)

    @property
    def names(self) -> tuple[str, ...]:
        """See `SharedPackages.names`."""
        return NAMES if _complete_file(self.parent, self.tag).is_file() else ()

    @property
    def failure(self) -> str:
        """See `SharedPackages.failure`."""
        return failure_of(self.parent, self.tag)

    def prepare(self) -> Path:
        """Make the folder, if it does not exist, and return it. Raises `OSError`, also if the
        parent folder belongs to another user."""
        own_folder(self.parent)
        return own_folder(self.folder)

    async def fetch(self, run: Run | None = None) -> None:
        """See `SharedPackages.fetch`.

        Args:
            run: Runs pip and the compiler; by default as child processes of low priority.

        Raises:
            PackagesUnavailable: pip failed, the disk is full, or a time limit was reached. Files
                that were already fetched are removed.
        """
        try:
            async with locked(self.parent):
                if not self.names:
                    await self._fetch(run or run_slowly)
        except PackagesUnavailable as error:
            note_failure(self.parent, self.tag, str(error))
            raise
        except OSError as error:  # TimeoutError is an OSError
            reason = not_fetched(error)
            note_failure(self.parent, self.tag, reason)
            raise PackagesUnavailable(reason) from error
        note_failure(self.parent, self.tag, "")

    async def _fetch(self, run: Run) -> None:
        fetched = self.folder.with_name(f".{self.folder.name}.fetching")
        shutil.rmtree(fetched, ignore_errors=True)
        try:
            await fetch_packages(fetched, self.version, platform.machine(), run)
            # If compiling takes too long, the packages are used without compiled modules, and
            # imports are slower. An error of the compiler is ignored too: a module that cannot be
            # compiled could not be imported anyway.
            with suppress(TimeoutError):
                await run(self._compiler(fetched), _COMPILE_S)
            await anyio.to_thread.run_sync(self._show, fetched)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(partial(shutil.rmtree, fetched, ignore_errors=True))

    def _compiler(self, target: Path) -> tuple[str, ...]:
        words = ("-I", "-S", "-m", "compileall", "-q", "-s", str(target), "-p", PLACE)
        return (self.executable, *words, str(target))

    def _show(self, fetched: Path) -> None:
        """Move the fetched packages into the folder that boxes see."""
        for path in (fetched, *fetched.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        for inner in in_order(fetched):
            place = self.folder / inner.name
            if place.is_dir():
                shutil.rmtree(place)
            inner.replace(place)
        (self.folder / COMPLETE).touch()


def not_fetched(error: OSError) -> str:
    """Return a sentence for operators about an `OSError` that ended the fetching of packages, such
    as a full disk or a time limit."""
    return (
        f"the packages of boxes cannot be fetched: {str(error) or 'it took too long'}; the next "
        "start of the bot tries it again"
    )


def packages_parent(wanted: Path | None = None) -> Path:
    """Return the folder that holds the packages of all versions of Python. Code in a box can read
    from which path of the host a folder is mounted. So the folder is not in the home folder of a
    user, whose name the path would show.

    Args:
        wanted: The operator's choice; None if there is none.
    """
    if wanted is not None:
        return wanted
    if os.geteuid() == 0:
        return Path("/var/lib/nekro-core/box-packages")
    return Path(f"/var/tmp/nekro-core-{os.geteuid()}/box-packages")  # noqa: S108 - see `own_folder`


def own_folder(path: Path) -> Path:
    """Make a folder that any user can read and only the user of this process can write. Return the
    folder. Raises `OSError`, also if the folder belongs to another user."""
    path.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or path.stat().st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user")
    path.chmod(0o755)
    return path
