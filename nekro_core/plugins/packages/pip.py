"""Runs pip as a child process: first to resolve versions, then to install exactly these
versions."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from nekro_core.plugins.packages.own_environment import bot_versions, own_environment
from nekro_core.system.errors import NekroError
from nekro_core.system.thread_cancellation import stop_if_cancelled

_OPTIONS = ("--disable-pip-version-check", "--no-input", "--no-color")
NEW_ENOUGH = "25.1"
"""The oldest version of pip that resolves some requirements on which older versions give up after a
long search. The changelog of this version says: "Update resolvelib to 1.1.0"."""
_TOO_OLD = re.compile(
    r"No module named pip|no such option: --(dry-run|report)|resolution-too-deep|ResolutionTooDeep"
    r"|^Traceback \(most recent call last\)",
    re.MULTILINE,
)
"""Texts in pip's output that show that pip is missing or too old. A traceback is one of them,
because a newer pip may not have the fault."""
_LOOK_S = 0.2
"""Seconds between two checks whether pip takes too long or was cancelled."""
_OWN_COMMANDS = frozenset({"pip", "setuptools", "wheel"})


class PipFailed(NekroError):
    """pip ended with an error. ``said`` is its whole output."""

    def __init__(self, said: str) -> None:
        super().__init__(said.strip().rpartition("\n")[2])
        self.said = said


@dataclass(frozen=True, slots=True)
class PinnedPackage:
    """One resolved package. ``digest`` is the hash of its file, as pip writes it
    (``sha256=...``)."""

    name: str
    version: str
    url: str
    digest: str


class Pip:
    """Runs the pip of the bot's environment. If this pip is missing or too old, `run` installs a
    newer pip into the folder ``home`` and runs that. ``index`` is the address of a package index;
    empty uses pip's own configuration. ``limit_s`` is the time limit of each run. All methods
    block, and raise `PipFailed` and `TimeoutError`."""

    def __init__(self, home: Path, *, index: str, builds: bool, limit_s: float) -> None:
        self._home = home
        self._source = ["--index-url", index] if index else []
        self._how = [] if builds else ["--only-binary", ":all:"]
        self._limit_s = limit_s

    def resolve(self, requirements: Iterable[str]) -> list[PinnedPackage]:
        """Find the packages that meet all requirements together with the bot's own packages, which
        keep their versions. Nothing is installed."""
        with tempfile.TemporaryDirectory(prefix="nekro-packages-") as folder:
            wanted, held = Path(folder) / "wanted.txt", Path(folder) / "held.txt"
            report = Path(folder) / "report.json"
            wanted.write_text("\n".join(requirements))
            held.write_text(
                "\n".join(
                    f"{name}=={version}"
                    for name, version in bot_versions().items()
                    if name not in _OWN_COMMANDS and "+" not in version
                )
            )
            self.run(
                [
                    "install", "--dry-run", "--report", str(report), "--requirement",
                    str(wanted), "--constraint", str(held), *self._source, *self._how,
                ]
            )  # fmt: skip
            found: dict[str, Any] = json.loads(report.read_text())
        return [_pinned(each) for each in found["install"]]

    def install_into(self, pinned: Sequence[PinnedPackage], target: Path) -> None:
        """Install resolved packages into a new folder."""
        target.mkdir(parents=True)
        if pinned:
            wanted = target.with_suffix(".txt")
            # With the digests in the list, pip installs exactly the files that it has resolved.
            wanted.write_text("\n".join(map(_line, pinned)))
            try:
                self.run(
                    [
                        "install", "--quiet", "--no-deps", "--no-warn-conflicts", "--target",
                        str(target), *self._source, *self._how, "--requirement", str(wanted),
                    ]
                )  # fmt: skip
            finally:
                wanted.unlink()

    def run(self, arguments: Sequence[str]) -> None:
        """Run pip with arguments. If pip is missing or too old, get a newer pip and run that."""
        brought = self._home / "pip"
        if brought.is_dir():
            return self._run([str(brought)], arguments)
        try:
            return self._run(["-m", "pip"], arguments)
        except PipFailed as error:
            if not _TOO_OLD.search(error.said):
                raise
            newer = self._bring()
            if newer is None:
                raise
        return self._run([str(newer)], arguments)

    def _bring(self) -> Path | None:
        """Install a pip of at least the version `NEW_ENOUGH` into ``home`` and return its path. If
        this fails, return the path of the pip that comes with Python; None if there is none."""
        shutil.rmtree(self._home, ignore_errors=True)
        here = _bundled()
        for pip in (["-m", "pip"], *([str(each)] for each in here)):
            try:
                self._run(
                    pip,
                    [
                        "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target",
                        str(self._home), *self._source, f"pip>={NEW_ENOUGH}",
                    ],
                )  # fmt: skip
            except (PipFailed, TimeoutError):
                shutil.rmtree(self._home, ignore_errors=True)
            else:
                return self._home / "pip"
        return here[0] if here else None

    def _run(self, pip: Sequence[str], arguments: Sequence[str]) -> None:
        deadline = time.monotonic() + self._limit_s
        with subprocess.Popen(  # noqa: S603 - no shell, and requirements come in a file
            [sys.executable, *pip, *_OPTIONS, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=own_environment(),
            text=True,
            errors="replace",
        ) as child:
            try:
                said = self._watch(child, deadline)
            except BaseException:
                child.kill()
                raise
        if child.returncode:
            raise PipFailed(said)

    def _watch(self, child: subprocess.Popen[str], deadline: float) -> str:
        """Wait until pip ends, and return its output. Raises `TimeoutError`, or the cancellation
        exception if the task that waits for pip was cancelled."""
        while True:
            try:
                said, _ = child.communicate(timeout=_LOOK_S)
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"pip took over {self._limit_s:g} s") from None
                stop_if_cancelled()
            else:
                return said


def _bundled() -> list[Path]:
    """Return a list with the path of pip inside the wheel that comes with Python. Python can run
    this path. The list is empty if this system has removed the wheel."""
    found = find_spec("ensurepip")
    folders = (found.submodule_search_locations if found else None) or ()
    wheels = [each for folder in folders for each in Path(folder, "_bundled").glob("pip-*.whl")]
    return [each / "pip" for each in sorted(wheels)[-1:]]


def _line(pinned: PinnedPackage) -> str:
    digest = f" --hash={pinned.digest.replace('=', ':', 1)}" if pinned.digest else ""
    return f"{pinned.name}=={pinned.version}{digest}"


def _pinned(entry: dict[str, Any]) -> PinnedPackage:
    archive = entry["download_info"].get("archive_info", {})
    return PinnedPackage(
        name=canonicalize_name(entry["metadata"]["name"]),
        version=entry["metadata"]["version"],
        url=entry["download_info"]["url"],
        digest=archive.get("hash", ""),
    )
