"""Fetches the Python packages that boxes can import, with pip. They fit one version of Python and
one processor architecture.

Each backend then puts the files where its boxes can read them (`nekro_core.sandbox.box_packages`,
`nekro_core.sandbox.docker.packages`).
"""

import fcntl
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
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
OLDEST, NEWEST = (3, 10), (3, 13)
"""The first and the last version of Python for which there are wheels of all listed packages."""
COMPLETE = ".complete"
"""The name of a file in the folder of the packages. It is written after all other files. While it
is missing, the packages are not complete."""
_NEEDED_BYTES = 700 * 1024 * 1024
"""Bytes of free disk space that fetching needs: 80 MB for the wheels, 230 MB for the unpacked
files, and the rest for compiled modules, or for a second copy that is sent to a Docker engine."""
_PIP_S = 1800.0
"""Time limit of pip in seconds. At 50 kB/s, 80 MB of wheels take about this long."""
_LOOK_AGAIN_S = 1.0
_FONT = "cvttf_NotoSansCJK_Regular"
"""The name of a Python package that the bot uses. It contains a font for Chinese, Japanese and
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


def packages_tag(version: tuple[int, int], machine: str) -> str:
    """Return a name for the packages of one version of Python on one processor architecture. The
    name changes if the list of packages changes."""
    return f"cp{version[0]}{version[1]}-{machine}-{packages_digest()}"


@cache
def packages_digest() -> str:
    """Return the last part of `packages_tag`, which says which list of packages is meant: 12
    hexadecimal digits. The list is a file of this program, so it is read once. Each prompt needs
    the digest."""
    return sha256(LISTED.read_bytes()).hexdigest()[:12]


async def fetch_packages(
    target: Path, version: tuple[int, int], machine: str, run: Run | None = None
) -> None:
    """Fetch the packages into the new folder ``target``, and add a font for Chinese, Japanese and
    Korean. Modules are not compiled. If this call fails, the caller removes the folder.

    Args:
        target: The folder. Its parent exists.
        version: The version of the Python that will import the packages.
        machine: The processor architecture of the machine on which this Python runs, such as
            ``x86_64``.
        run: Runs pip; by default as a child process of low priority.

    Raises:
        PackagesUnavailable: pip failed, there is too little free space, or there are no wheels for
            this version.
        OSError: A file cannot be written, or pip took too long.
    """
    python = ".".join(map(str, version))
    if not OLDEST <= version <= NEWEST:
        oldest, newest = (".".join(map(str, each)) for each in (OLDEST, NEWEST))
        raise PackagesUnavailable(
            f"there are no packages of boxes for Python {python}, only for {oldest} to {newest}; "
            "give boxes another Python, or set NEKRO_SANDBOX__PACKAGES=false"
        )
    free = shutil.disk_usage(target.parent).free
    if free < _NEEDED_BYTES:
        raise PackagesUnavailable(
            f"{target.parent} has {free // 1_000_000} MB of free space, and the packages of "
            f"boxes need {_NEEDED_BYTES // 1_000_000}; make room or set "
            "NEKRO_SANDBOX__PACKAGES=false"
        )
    status, said = await (run or run_slowly)(_pip(target, python, machine), _PIP_S)
    if status:
        raise PackagesUnavailable(
            f"pip could not fetch the packages of boxes for Python {python}: "
            f"{' '.join(said.split())[-400:]}; see that pip reaches its index, or set "
            "NEKRO_SANDBOX__PACKAGES=false"
        )
    await anyio.to_thread.run_sync(_add_font, target)


def in_order(folder: Path) -> list[Path]:
    """Return the paths of all entries of the folder of the packages, in the order in which they are
    moved to where boxes see them. The packages of `NAMES` come last, because they need the other
    packages."""
    return sorted(folder.iterdir(), key=lambda each: (each.name in NAMES, each.name))


def note_failure(parent: Path, tag: str, reason: str) -> None:
    """Store why the packages with the name ``tag`` could not be fetched, for `failure_of`. An empty
    ``reason`` removes the stored reason. If the folder cannot be written, nothing is stored."""
    note = _note(parent, tag)
    with suppress(OSError):
        if reason:
            note.write_text(reason, encoding="utf-8")
        else:
            note.unlink(missing_ok=True)


def failure_of(parent: Path, tag: str) -> str:
    """Return why the last attempt to fetch the packages with the name ``tag`` failed; empty if it
    did not fail. Another process may have made this attempt."""
    try:
        return _note(parent, tag).read_text(encoding="utf-8")
    except OSError:
        return ""


def _note(parent: Path, tag: str) -> Path:
    return parent / f".{tag}.failed"


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


@asynccontextmanager
async def locked(parent: Path) -> AsyncIterator[None]:
    """Hold the lock of the folder ``parent`` in the block. Only one process at a time can hold the
    lock. While another process holds it, try again every second. Raises `OSError`."""
    with _lock_file(parent).open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await anyio.sleep(_LOOK_AGAIN_S)
        yield


def _lock_file(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    return parent / ".lock"


def _pip(target: Path, python: str, machine: str) -> tuple[str, ...]:
    systems = (f"manylinux2014_{machine}", f"manylinux_2_28_{machine}")
    return (
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps"),
        *("--disable-pip-version-check", "--no-compile", "--only-binary=:all:"),
        *("--python-version", python, "--implementation", "cp"),
        *(word for system in systems for word in ("--platform", system)),
        *("--target", str(target), "--requirement", str(LISTED)),
    )


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
