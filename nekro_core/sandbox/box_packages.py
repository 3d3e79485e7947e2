"""Fetches the Python packages that every box of the jail can import: numpy, pandas, matplotlib and
others.

They are fetched once for a version of Python and a kind of machine, as wheels, into a folder that
all boxes see read-only. The folder exists from the start and is empty at first. So a box that was
made before the packages were fetched can import them too. ``box_packages.txt`` has the versions.
"""

import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import anyio
import anyio.to_thread

from nekro_core.system.errors import NekroError

PLACE = "/opt/packages"
"""The folder of the packages in a box."""
NAMES = (
    "numpy",
    "pandas",
    "PIL",
    "matplotlib",
    "openpyxl",
    "pypdf",
    "docx",
    "lxml",
    "sympy",
)
"""The names under which code imports the packages."""
LISTED = Path(__file__).with_name("box_packages.txt")
_COMPLETE = ".complete"
"""This file is written last. Without this file, `BoxPackages.names` is empty."""
_NEEDED_BYTES = 700 * 1024 * 1024
"""Free disk space that fetching needs: 80 MB of wheels, 230 MB unpacked, and compiled modules."""
_PIP_S = 1800.0
"""Time limit of pip in seconds. At 50 kB/s, 80 MB of wheels take about this long."""
_COMPILE_S = 900.0
_LOOK_AGAIN_S = 1.0
_FONT = "cvttf_NotoSansCJK_Regular"
"""The name of a Python package of the bot, which contains a font for Chinese, Japanese and
Korean."""
_FAMILIES = "#font.family: DejaVu Sans, Noto Sans CJK TC"
_USUAL_FAMILY = re.compile(r"^#?font\.family:.*$", re.MULTILINE)
"""The line of matplotlib's settings that names the default fonts. In the file that comes with
matplotlib, matplotlib ignores the ``#`` at the beginning of each line."""
FONT_SETTINGS = f"{PLACE}/fonts.conf"
"""The path of fontconfig's settings in a box. Without settings, programs that use fontconfig print
an error each time."""
_FONT_SETTINGS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>/usr/share/fonts</dir><cachedir>/tmp/fontconfig</cachedir></fontconfig>
"""


class PackagesUnavailable(NekroError):
    """The packages cannot be fetched. The text says why and what to do."""


Run = Callable[[Sequence[str], float], Awaitable[tuple[int, str]]]
"""Runs a program, with a time limit in seconds, and returns its exit status and its output. Raises
`TimeoutError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxPackages:
    """The packages for boxes with one version of Python.

    Attributes:
        parent: The folder that holds the packages of all versions. Any user can read it.
        executable: The path of the Python that runs in the boxes.
        version: The version of this Python.
    """

    parent: Path
    executable: str
    version: tuple[int, int]

    @property
    def folder(self) -> Path:
        """The folder that boxes see."""
        digest = sha256(LISTED.read_bytes()).hexdigest()[:12]
        tag = f"cp{self.version[0]}{self.version[1]}"
        return self.parent / f"{tag}-{platform.machine()}-{digest}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names that code can import; empty while the packages are not fetched."""
        return NAMES if (self.folder / _COMPLETE).is_file() else ()

    def prepare(self) -> Path:
        """Make the folder, if it does not exist, and return it. Raises `OSError`, also if the
        parent folder belongs to another user."""
        for path in (self.parent, self.folder):
            path.mkdir(parents=True, exist_ok=True)
            if path.is_symlink() or path.stat().st_uid != os.geteuid():
                raise PermissionError(f"{path} belongs to another user")
            path.chmod(0o755)
        return self.folder

    async def fetch(self, run: Run | None = None) -> None:
        """Fetch the packages, if the folder does not have them yet. This takes a minute or more. If
        another process fetches them, this call waits for that process. If this call is cancelled,
        its child processes are killed.

        Args:
            run: Runs pip and the compiler; by default as child processes of low priority.

        Raises:
            PackagesUnavailable: pip failed, the disk is full, or a time limit was reached. The
                files that were fetched are removed.
        """
        try:
            async with _locked(self.parent / ".lock"):
                if not self.names:
                    await self._fetch(run or run_slowly)
        except OSError as error:  # TimeoutError is an OSError
            raise PackagesUnavailable(
                f"the packages of boxes cannot be fetched: {str(error) or 'it took too long'}; the "
                "next start of the bot tries it again"
            ) from error

    async def _fetch(self, run: Run) -> None:
        free = shutil.disk_usage(self.parent).free
        if free < _NEEDED_BYTES:
            raise PackagesUnavailable(
                f"{self.parent} has {free // 1_000_000} MB of free space, and the packages of "
                f"boxes need {_NEEDED_BYTES // 1_000_000}; make room or set "
                "NEKRO_SANDBOX__PACKAGES=false"
            )
        fetched = self.folder.with_name(f".{self.folder.name}.fetching")
        shutil.rmtree(fetched, ignore_errors=True)
        try:
            status, said = await run(self._pip(fetched), _PIP_S)
            if status:
                raise PackagesUnavailable(
                    f"pip could not fetch the packages of boxes for Python {self._python}: "
                    f"{' '.join(said.split())[-400:]}; see that pip reaches its index, or set "
                    "NEKRO_SANDBOX__PACKAGES=false"
                )
            await anyio.to_thread.run_sync(_add_font, fetched)
            # If compiling takes too long, the packages are used without compiled modules, and
            # imports are slower. An error of the compiler is ignored too: a module that cannot be
            # compiled could not be imported anyway.
            with suppress(TimeoutError):
                await run(self._compiler(fetched), _COMPILE_S)
            await anyio.to_thread.run_sync(self._show, fetched)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(partial(shutil.rmtree, fetched, ignore_errors=True))

    @property
    def _python(self) -> str:
        return ".".join(map(str, self.version))

    def _pip(self, target: Path) -> tuple[str, ...]:
        machine = platform.machine()
        systems = (f"manylinux2014_{machine}", f"manylinux_2_28_{machine}")
        return (
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps"),
            *("--disable-pip-version-check", "--no-compile", "--only-binary=:all:"),
            *("--python-version", self._python, "--implementation", "cp"),
            *(word for system in systems for word in ("--platform", system)),
            *("--target", str(target), "--requirement", str(LISTED)),
        )

    def _compiler(self, target: Path) -> tuple[str, ...]:
        words = ("-I", "-S", "-m", "compileall", "-q", "-s", str(target), "-p", PLACE)
        return (self.executable, *words, str(target))

    def _show(self, fetched: Path) -> None:
        """Move the fetched packages into the folder that boxes see. The packages of `NAMES` are
        moved last, because they need the other packages."""
        for path in (fetched, *fetched.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        for inner in sorted(fetched.iterdir(), key=lambda each: (each.name in NAMES, each.name)):
            place = self.folder / inner.name
            if place.is_dir():
                shutil.rmtree(place)
            inner.replace(place)
        (self.folder / _COMPLETE).touch()


def packages_parent(wanted: Path | None = None) -> Path:
    """Return the folder for the packages of boxes. A box can read the host paths of its mounted
    files, so the folder must not be in a user's home folder.

    Args:
        wanted: The operator's choice; None if there is none.
    """
    if wanted is not None:
        return wanted
    if os.geteuid() == 0:
        return Path("/var/lib/nekro-core/box-packages")
    return Path(f"/var/tmp/nekro-core-{os.geteuid()}/box-packages")  # noqa: S108 - see `prepare`


async def run_slowly(words: Sequence[str], limit_s: float) -> tuple[int, str]:
    """Run a program with a low priority. Returns its exit status and its output. Raises
    `TimeoutError`."""
    with anyio.fail_after(limit_s):
        done = await anyio.run_process(
            ["nice", "-n", "10", *words],
            check=False,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
    return done.returncode, done.stdout.decode(errors="replace")


def _add_font(fetched: Path) -> None:
    """Give matplotlib the bot's font for Chinese, Japanese and Korean, and make it the default."""
    data = fetched / "matplotlib" / "mpl-data"
    spec = find_spec(_FONT)
    if spec is None or spec.origin is None or not data.is_dir():
        return
    for font in Path(spec.origin).parent.rglob("*.[ot]tf"):
        shutil.copyfile(font, data / "fonts" / "ttf" / font.name)
    settings = data / "matplotlibrc"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(_USUAL_FAMILY.sub(_FAMILIES, text, count=1), encoding="utf-8")
    (fetched / "fonts.conf").write_text(_FONT_SETTINGS, encoding="utf-8")


@asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """Hold a lock among processes. While another process holds it, try again every second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await anyio.sleep(_LOOK_AGAIN_S)
        yield
