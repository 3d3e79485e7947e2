"""Files between a handler and the box of the run that called it."""

import mimetypes
from pathlib import Path
from typing import TypeGuard

import anyio

from nekro_core.chat import ChatKey, Media
from nekro_core.delivery.host import MediaKeeper
from nekro_core.plugin.services import BoxFiles
from nekro_core.sandbox.box import BoxFileError
from nekro_core.tools.outcome import ToolFailure

MAX_FILE_BYTES = 32 * 1024 * 1024
"""Largest file that passes in either direction: what the media store keeps."""

_URL_STARTS = ("http://", "https://", "data:", "base64://")
_HOME = "/home/user"


def is_url(source: object) -> TypeGuard[str]:
    """Whether a source is an address to fetch rather than a path of the box."""
    return isinstance(source, str) and source.startswith(_URL_STARTS)


class BoxFileSystem:
    """The box as a handler sees it. Text paths are the box's own, and are resolved inside it."""

    def __init__(self, box: BoxFiles | None, media: MediaKeeper, chat: ChatKey) -> None:
        self._box = box
        self._media = media
        self._chat = chat

    async def read(self, source: str | bytes | Path) -> bytes:
        """The bytes of a box path (``str``) or of a file of the plugin (`Path`); bytes as they are.

        Raises `ToolFailure` with the reason where there are none, or more than 32 MiB.
        """
        if isinstance(source, bytes):
            return source
        if isinstance(source, Path):
            return await anyio.Path(source).read_bytes()
        try:
            return await self._there().read_file(source, limit=MAX_FILE_BYTES)
        except BoxFileError as error:
            raise ToolFailure(f"{source!r}: {error}") from None

    async def write(self, path: str, data: bytes) -> str:
        """Replace a file of the box; returns its path. Raises `ToolFailure` with the reason."""
        if len(data) > MAX_FILE_BYTES:
            raise ToolFailure(f"{path!r}: {len(data)} bytes, at most {MAX_FILE_BYTES}")
        try:
            await self._there().write_file(path, data)
        except BoxFileError as error:
            raise ToolFailure(f"{path!r}: {error}") from None
        return path

    async def mixed_forward_file(self, file: str | bytes | Path, file_name: str = "") -> str:
        """Put a file into the box, from a URL, a data URL, bytes or the plugin's own `Path`.

        Returns its path there; a text that is no URL is taken for a box path and comes back as it
        is. Raises `ToolFailure` with the reason.
        """
        if isinstance(file, str) and not is_url(file):
            return file
        if isinstance(file, str):
            medium = await self._fetched(file)
            data = await anyio.Path(medium.path).read_bytes()
            ending = mimetypes.guess_extension(medium.mime) or ""
            name = medium.name or f"{medium.sha256[:16]}{ending}"
        else:
            data = await self.read(file)
            name = file.name if isinstance(file, Path) else "file"
        plain = (file_name or name).replace("\\", "/").split("/")[-1]
        return await self.write(f"{_HOME}/{plain or 'file'}", data)

    async def fetch(self, source: str) -> bytes:
        """The bytes of a box path or a URL. Raises `ToolFailure` with the reason."""
        if not is_url(source):
            return await self.read(source)
        medium = await self._fetched(source)
        return await anyio.Path(medium.path).read_bytes()

    async def _fetched(self, url: str) -> Media:
        medium = await self._media.keep_url(self._chat, url, expect="file")
        if medium.problem:
            raise ToolFailure(medium.problem)
        return medium

    def _there(self) -> BoxFiles:
        if self._box is None:
            raise ToolFailure("there is no box here: files can be used only in a run's tools")
        return self._box
