"""Runs pip as a child process: first to resolve versions, then to install exactly these."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from nekro_core.plugins.packages.own_environment import bot_versions
from nekro_core.system.errors import NekroError

_BASE = (
    sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color",
)  # fmt: skip
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


def resolve(
    requirements: Iterable[str], *, index: str, builds: bool, limit_s: float
) -> list[PinnedPackage]:
    """Find the packages that meet all requirements. The bot's own packages keep their versions.
    Nothing is installed. Blocks. Raises `PipFailed` and `TimeoutError`."""
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
        _run(
            [
                "install", "--dry-run", "--report", str(report), "--requirement",
                str(wanted), "--constraint", str(held), *_source(index, builds=builds),
            ],
            limit_s,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(report.read_text())
    return [_pinned(each) for each in found["install"]]


def install_into(
    pinned: Sequence[PinnedPackage], target: Path, *, index: str, builds: bool, limit_s: float
) -> None:
    """Install resolved packages into a new folder. Blocks. Raises `PipFailed` and
    `TimeoutError`."""
    target.mkdir(parents=True)
    if pinned:
        wanted = target.with_suffix(".txt")
        # Because of the hashes, pip installs exactly the files that it resolved.
        wanted.write_text("\n".join(map(_line, pinned)))
        try:
            _run(
                [
                    "install", "--quiet", "--no-deps", "--no-warn-conflicts", "--target",
                    str(target), *_source(index, builds=builds), "--requirement", str(wanted),
                ],
                limit_s,
            )  # fmt: skip
        finally:
            wanted.unlink()


def _line(pinned: PinnedPackage) -> str:
    digest = f" --hash={pinned.digest.replace('=', ':', 1)}" if pinned.digest else ""
    return f"{pinned.name}=={pinned.version}{digest}"


def _source(index: str, *, builds: bool) -> list[str]:
    chosen = ["--index-url", index] if index else []
    return chosen if builds else [*chosen, "--only-binary", ":all:"]


def _pinned(entry: dict[str, Any]) -> PinnedPackage:
    archive = entry["download_info"].get("archive_info", {})
    return PinnedPackage(
        name=canonicalize_name(entry["metadata"]["name"]),
        version=entry["metadata"]["version"],
        url=entry["download_info"]["url"],
        digest=archive.get("hash", ""),
    )


def _run(arguments: Sequence[str], limit_s: float) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - no shell; requirements are in a file
            [*_BASE, *arguments],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"pip took over {limit_s:g} s") from None
    if done.returncode:
        raise PipFailed(done.stdout)
