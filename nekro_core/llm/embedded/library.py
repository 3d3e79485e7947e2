"""Keeps the model files of the bot: lists, downloads, copies and removes them."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread
import httpx

from nekro_core.llm.embedded.gguf import GgufInfo, read_gguf
from nekro_core.llm.embedded.hub import TIMES, download
from nekro_core.llm.embedded.weights import (
    DownloadProgress,
    Report,
    WeightsError,
    WeightsSourceError,
    file_sha256,
    install_download,
    known_weights,
    require_gguf,
    require_space,
)
from nekro_core.sandbox.memory_limit import meminfo_bytes

_NAME = re.compile(r"\w[\w.+-]{0,150}\.gguf", re.ASCII | re.IGNORECASE)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CHUNK = 4 * 1024 * 1024
_MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A model file in the bot's folder.

    Attributes:
        name: The name of the file.
        bytes: Its size.
        known: Whether this is the name of a file that the bot downloads by itself.
        info: What its header says; None if it cannot be read.
        problem: Why it cannot be used; empty if it can.
    """

    name: str
    bytes: int
    known: bool
    info: GgufInfo | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMemory:
    """The memory of this machine in bytes: the whole memory, and the part that programs can still
    get. A number is 0 if it is not known."""

    total: int
    available: int


class ModelFiles:
    """The model files in a folder. ``folder`` is ``data/models``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        """Return the path of a file. Raises `WeightsError` if there is no file with this name."""
        path = self._folder / _checked_name(name)
        if not path.is_file():
            raise WeightsError(f"there is no model file {name!r}")
        return path

    def has(self, path: Path) -> bool:
        """Return True if the path leads to a file in this folder."""
        return path.is_file() and path.parent == self._folder

    async def all(self) -> list[ModelFile]:
        """List the files by name. Raises `OSError`."""
        return await anyio.to_thread.run_sync(self._all)

    async def download(self, url: str, report: Report, *, name: str = "", sha256: str = "") -> Path:
        """Download a file. If it is cancelled, or the connection breaks, the next call with the
        same address continues where it stopped.

        Args:
            url: The address of a GGUF file, with http or https.
            report: Is called with the progress.
            name: The name of the file; empty to use the name in the address.
            sha256: The SHA-256 that the file must have, in hex. If it is empty, the file is checked
                against the hash that the server sends. Model hubs send a hash. If the server sends
                none, the file is not checked.

        Returns:
            The path of the file.

        Raises:
            WeightsError: The address, the name or the file is not usable, or the server failed.
            OSError: The file cannot be written.
        """
        address = urlsplit(url.strip())
        if address.scheme not in ("http", "https") or not address.hostname:
            raise WeightsError(f"{url[:200]!r} is no address: expected https://.../model.gguf")
        name = _checked_name(name or unquote(address.path.rpartition("/")[2]))
        wanted = _checked_hash(sha256)
        path = await self._free(name)
        try:
            async with httpx.AsyncClient(timeout=TIMES, follow_redirects=True) as client:
                size, stamp, told = await _ask(client, url.strip())
                partial = self._partial(name, f"{url} {stamp}")
                have = partial.stat().st_size if partial.exists() else 0
                require_space(self._folder, size - have)
                progress = DownloadProgress(name, 0, size, "loading", name)
                await download(client, url.strip(), partial, progress, report)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            what = str(error) or type(error).__name__
            raise WeightsSourceError(
                f"{address.hostname}: {what}. Try again: the download continues where it stopped"
            ) from error
        return await self._install(partial, path, wanted or told, report)

    async def copy(self, source: Path, report: Report, *, sha256: str = "") -> Path:
        """Copy a file of this machine. See `download` for the arguments and errors."""
        name, wanted = _checked_name(source.name), _checked_hash(sha256)
        await anyio.to_thread.run_sync(require_gguf, source)
        path = await self._free(name)
        size = (await anyio.Path(source).stat()).st_size
        require_space(self._folder, size)
        partial = self._partial(name, str(source))
        copied = False
        try:
            async with (
                await anyio.open_file(source, "rb") as reader,
                await anyio.open_file(partial, "wb") as writer,
            ):
                done = 0
                while chunk := await reader.read(_CHUNK):
                    await writer.write(chunk)
                    done += len(chunk)
                    report(DownloadProgress(name, done, size, "copying", name))
            copied = True
        finally:
            if not copied:
                partial.unlink(missing_ok=True)
        return await self._install(partial, path, wanted, report)

    async def remove(self, name: str) -> None:
        """Delete a file, even if it is only partly downloaded. Raises `WeightsError` and
        `OSError`."""
        path = self._folder / _checked_name(name)
        partials = [*self._folder.glob(f".{path.name}.*.part")]
        if not path.is_file() and not partials:
            raise WeightsError(f"there is no model file {name!r}")
        for each in (path, path.with_name(f"{path.name}.verified"), *partials):
            each.unlink(missing_ok=True)

    async def _free(self, name: str) -> Path:
        await anyio.Path(self._folder).mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / name
        if path.exists():
            raise WeightsError(f"there is a model file {name!r} already: remove it first")
        return path

    def _partial(self, name: str, version: str) -> Path:
        # The name depends on the version, so that a partial download of another version is not
        # continued.
        digest = hashlib.sha256(version.encode()).hexdigest()[:16]
        return self._folder / f".{name}.{digest}.part"

    async def _install(self, partial: Path, path: Path, wanted: str, report: Report) -> Path:
        report(DownloadProgress(f"{path.name}: checking", 0, 0, "checking", path.name))
        await anyio.to_thread.run_sync(_install, partial, path, wanted)
        return path

    def _all(self) -> list[ModelFile]:
        known = {each.file for each in known_weights()}
        found: list[ModelFile] = []
        for path in sorted(self._folder.glob("*.gguf")):
            info, problem = None, ""
            try:
                info = read_gguf(path)
            except WeightsError as error:
                problem = str(error)
            found.append(
                ModelFile(
                    name=path.name,
                    bytes=path.stat().st_size,
                    known=path.name in known,
                    info=info,
                    problem=problem,
                )
            )
        return found


def _install(partial: Path, path: Path, wanted: str) -> None:
    try:
        read_gguf(partial)
    except WeightsError as error:
        partial.unlink()
        told = str(error).replace(partial.name, path.name)
        raise WeightsSourceError(f"{told}: deleted") from None
    install_download(partial, path, wanted or file_sha256(partial))


def machine_memory() -> MachineMemory:
    """Return the memory of this machine."""
    total = meminfo_bytes("MemTotal", _MEMINFO)
    return MachineMemory(total=total, available=meminfo_bytes("MemAvailable", _MEMINFO))


async def _ask(client: httpx.AsyncClient, url: str) -> tuple[int, str, str]:
    """Return the size of a file, a text that is different for each version of the file, and the
    file's SHA-256 if the server sends it."""
    # A model hub sends size and hash in its own answer, which redirects to its storage. So do not
    # follow the redirect.
    first = await client.head(url, follow_redirects=False)
    told = first.headers.get("x-linked-etag", "").strip('"')
    size = first.headers.get("x-linked-size", "")
    if size.isdecimal() and int(size) and _SHA256.fullmatch(told):
        return int(size), told, told
    answer = await client.head(url)
    size = answer.headers.get("content-length", "")
    if answer.status_code != 200 or not size.isdecimal() or not int(size):
        host = urlsplit(url).netloc
        raise WeightsSourceError(f"{host} answers {answer.status_code} without the file's size")
    stamp = answer.headers.get("etag", "") or answer.headers.get("last-modified", "")
    return int(size), f"{stamp} {size}", ""


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise WeightsError(
            f"the name {name[:100]!r}: expected letters, digits and _ . + -, and .gguf at the end"
        )
    return name


def _checked_hash(sha256: str) -> str:
    wanted = sha256.strip().lower()
    if wanted and not _SHA256.fullmatch(wanted):
        raise WeightsError("the SHA-256: expected 64 digits from 0 to f")
    return wanted
