"""Moves files between a handler (a plugin's function that the bot calls) and the box of the run
that called it."""

import hashlib
import mimetypes
from pathlib import Path
from typing import TypeGuard, TypeVar

import anyio
from anyio import to_thread

from nekro_core.chat import ChatKey, Media
from nekro_core.delivery.media_contract import MediaKeeper
from nekro_core.media.sniff import HEAD, sniff
from nekro_core.plugins.authoring.chat_network import fetch_scope
from nekro_core.plugins.authoring.host_files import HOME, SHARED, UPLOADS, HostFiles
from nekro_core.plugins.authoring.services import BoxFiles
from nekro_core.sandbox.box import BoxFileError
from nekro_core.system.sync_bridge import wait_for
from nekro_core.tools.outcome import ToolFailure

MAX_FILE_BYTES = 32 * 1024 * 1024
"""Maximum size in bytes of a file that is read from a box or written to it. The media store has the
same limit."""

Source = TypeVar("Source", str | Path, str | bytes | Path)
_URL_STARTS = ("http://", "https://", "data:", "base64://")
_BOX_STARTS = (f"{HOME}/", f"{SHARED}/", f"{UPLOADS}/")


def is_url(source: object) -> TypeGuard[str]:
    """Return True if a source is a URL, which must be fetched; False if it is a path of the box."""
    return isinstance(source, str) and source.startswith(_URL_STARTS)


class BoxFileSystem:
    """Gives a handler access to the files of a box. A ``str`` path means a file of the box.

    A ``str`` may also name one of the plugin's own files on the host; `HostFiles.own_file` says
    which. A path that the model wrote never means a file of the host.

    Args:
        box: The box; None if there is none, as in a hook or a timer.
        media: Stores the files that are fetched from URLs.
        chat: The chat of the call.
        mirror: The chat's folders on the host.
        container_key: The name of the box's folder.
    """

    def __init__(
        self,
        box: BoxFiles | None,
        media: MediaKeeper,
        chat: ChatKey,
        mirror: HostFiles,
        container_key: str = "",
    ) -> None:
        self._box = box
        self._media = media
        self._mirror = mirror
        self._chat = chat
        self.chat_key = str(chat)
        self.container_key = container_key

    async def read(self, source: str | bytes | Path) -> bytes:
        """Read a file.

        Args:
            source: A path of the box (``str``), a file of the plugin (`Path`), or bytes.

        Returns:
            The file's bytes. If ``source`` is bytes, they are returned unchanged.

        Raises:
            ToolFailure: There is no such file in the box, it is larger than 32 MiB, or there is no
                box.
            OSError: The plugin's own file cannot be read.
        """
        if isinstance(source, bytes):
            return source
        source = self.meant(source)
        if isinstance(source, Path):
            return await anyio.Path(source).read_bytes()
        own = self._mirror.own_file(source) or self._on_the_host(source)
        if own is not None:
            return await anyio.Path(own).read_bytes()
        return await self._read_box(source)

    async def write(self, path: str, data: bytes) -> str:
        """Write a file in the box. An existing file is replaced.

        Args:
            path: The path in the box.
            data: The bytes, at most 32 MiB.

        Returns:
            The path.

        Raises:
            ToolFailure: The file is too large or cannot be written, or there is no box.
        """
        if len(data) > MAX_FILE_BYTES:
            raise ToolFailure(f"{path!r}: {len(data)} bytes, at most {MAX_FILE_BYTES}")
        try:
            await self._there().write_file(path, data)
        except BoxFileError as error:
            raise ToolFailure(f"{path!r}: {error}") from None
        return path

    async def mixed_forward_file(self, file: str | bytes | Path, file_name: str = "") -> str:
        """Put a file into the box. If there is no box (in a hook or a timer), the file is stored on
        the host, so that it can be sent under the same path.

        Args:
            file: A URL, a data URL, bytes or the plugin's own `Path`. Any other ``str`` means a
                path of the box.
            file_name: The name in the box. Empty means the file's own name; bytes get a name made
                from their hash.

        Returns:
            The path in the box. If the argument is a path of the box, it is returned unchanged.

        Raises:
            ToolFailure: The file cannot be fetched or written; the text says why.
        """
        file = self.meant(file)
        if isinstance(file, str) and not is_url(file):
            own = self._mirror.own_file(file)
            if own is None:
                return file
            if inside := self._mirror.box_path(own):
                return await self._pushed(own, inside)
            file = own
        if isinstance(file, str):
            medium = await self._fetched(file)
            data = await anyio.Path(medium.path).read_bytes()
            ending = mimetypes.guess_extension(medium.mime) or ""
            name = medium.name or f"{medium.sha256[:16]}{ending}"
        else:
            data = await self.read(file)
            name = file.name if isinstance(file, Path) else _name_of(data)
        plain = (file_name or name).replace("\\", "/").split("/")[-1]
        return await self._put(f"{HOME}/{plain or 'file'}", data)

    def meant(self, source: Source) -> Source:
        """Make the model unable to name files of the host: if a plugin made a `Path` only from the
        model's text, turn it into a path of the box.

        Args:
            source: A path, text or bytes.

        Returns:
            Such a `Path` as ``str``, which means a path of the box. Any other source unchanged.
        """
        told = isinstance(source, Path) and self._mirror.is_given_path(source)
        return str(source) if told else source

    async def fetch(self, source: str) -> bytes:
        """Read a file of the box, or fetch one from a URL.

        Args:
            source: A path of the box or a URL.

        Returns:
            The file's bytes.

        Raises:
            ToolFailure: The file cannot be read or fetched; the text says why.
        """
        if not is_url(source):
            return await self.read(source)
        medium = await self._fetched(source)
        return await anyio.Path(medium.path).read_bytes()

    @property
    def shared_path(self) -> Path:
        """The folder on the host that corresponds to the box's ``/app/shared``.

        Files that a plugin puts there during a call are copied into the box after the call;
        `forward_file` copies one at once. In the other direction, only `get_file` copies files from
        the box into this folder. Raises `ToolFailure` if the folder is full of recent files, which
        must not be deleted.
        """
        self._mirror.shared.mkdir(parents=True, exist_ok=True)
        if not self._mirror.call.shared_used:
            self._mirror.room.make()
        self._mirror.call.shared_used = True
        return self._mirror.shared

    @property
    def upload_path(self) -> Path:
        """The folder on the host with the files that the chat received."""
        self._mirror.uploads.mkdir(parents=True, exist_ok=True)
        return self._mirror.uploads

    @property
    def file_utils(self) -> "BoxFileSystem":
        """This object itself. Existing plugins call its methods as ``file_utils.method()``."""
        return self

    def get_file(self, path: str | Path) -> Path:
        """Copy the present content of a file of the box to the host.

        Args:
            path: The path, resolved inside the box.

        Returns:
            The copy's path on the host. If the box has no such file, nothing exists at that path.

        Raises:
            ValueError: The path is outside of the box's folders.
            ToolFailure: The file cannot be read.
            CannotWait: This was called in a task that the plugin started; use `read` there.
        """
        text = str(path)
        own = self._mirror.own_file(text)
        if own is not None:
            return own
        copy, inside = self._mirror.host_path(text)
        if inside and self._box is not None:
            wait_for(self._copied(inside, copy))
        return copy

    def forward_file(self, path: str | Path) -> str:
        """Put a file of the host into the box.

        Args:
            path: A file of the plugin on the host, or a path of the box.

        Returns:
            The path in the box. If the argument is a path of the box, it is returned unchanged.

        Raises:
            ToolFailure: The file cannot be written; the text says why.
            CannotWait: This was called in a task that the plugin started; use `mixed_forward_file`
                there.
        """
        path = self.meant(path)
        if isinstance(path, str):
            own = self._mirror.own_file(path)
            if own is None:
                return path
            path = own
        inside = self._mirror.box_path(path)
        if inside:
            return wait_for(self._pushed(path, inside))
        return wait_for(self.mixed_forward_file(path))

    async def hand_in(self) -> None:
        """Copy new files from `shared_path` into the box. The bot calls this after each call of the
        plugin.

        Old files of the folder are deleted to make room. If the new files do not fit even then,
        they are deleted and `ToolFailure` is raised.
        """
        if not self._mirror.call.shared_used:
            return
        mirror = self._mirror
        made = await to_thread.run_sync(lambda: list(mirror.new_shared()))
        await to_thread.run_sync(mirror.room.clear, iter(made))
        if self._box is None:
            return
        for path in made:
            await self._pushed(path, mirror.box_path(path))

    async def _pushed(self, path: Path, inside: str) -> str:
        """Copy a file of the chat's folders on the host into the box."""
        if self._box is None:
            return inside
        size = (await anyio.Path(path).stat()).st_size
        if size > MAX_FILE_BYTES:
            raise ToolFailure(f"{path.name!r}: {size} bytes, at most {MAX_FILE_BYTES}")
        data = await anyio.Path(path).read_bytes()
        if inside.startswith(f"{UPLOADS}/"):
            try:
                await self._box.write_file(inside, data, read_only=True)
            except BoxFileError as error:
                # The box may already have the file, read-only.
                if error.code != "permission_denied":
                    raise ToolFailure(f"{inside!r}: {error}") from None
            return inside
        await self.write(f"{HOME}/{inside.removeprefix(f'{SHARED}/')}", data)
        self._mirror.call.handed_in.add(path)
        return inside

    async def _put(self, path: str, data: bytes) -> str:
        if self._box is not None:
            return await self.write(path, data)
        copy, _ = self._mirror.host_path(path)
        await to_thread.run_sync(self._written, copy, data)
        return path

    async def _copied(self, inside: str, copy: Path) -> None:
        try:
            data = await self._there().read_file(inside, limit=MAX_FILE_BYTES)
        except BoxFileError as error:
            if error.code == "is_a_directory":
                await to_thread.run_sync(lambda: copy.mkdir(parents=True, exist_ok=True))
                return
            if error.code != "not_found":
                raise ToolFailure(f"{inside!r}: {error}") from None
            await to_thread.run_sync(lambda: copy.unlink(missing_ok=True))
            return
        await to_thread.run_sync(self._written, copy, data)
        # Mark the file, so that `hand_in` does not copy it back into the box. Only files that the
        # plugin wrote must be copied.
        self._mirror.call.handed_in.add(copy)

    def _written(self, copy: Path, data: bytes) -> None:
        if copy.is_dir():
            raise ToolFailure(f"{copy.name!r} is a folder")
        before = copy.lstat().st_size if copy.exists() else 0
        self._mirror.room.make(max(0, len(data) - before))
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)

    async def _read_box(self, path: str) -> bytes:
        try:
            return await self._there().read_file(path, limit=MAX_FILE_BYTES)
        except BoxFileError as error:
            raise ToolFailure(f"{path!r}: {error}") from None

    def _on_the_host(self, path: str) -> Path | None:
        """Get the copy on the host of a file of the box; None if there is none. Received files
        have a copy. If there is no box, files are stored only on the host."""
        received = path.startswith(f"{UPLOADS}/")
        if not received and (self._box is not None or not path.startswith(_BOX_STARTS)):
            return None
        try:
            copy, _ = self._mirror.host_path(path)
        except ValueError:
            return None
        return copy if copy.is_file() else None

    async def _fetched(self, url: str) -> Media:
        with fetch_scope(self._chat, self._mirror.call):
            medium = await self._media.keep_url(self._chat, url, expect="file")
        if medium.problem:
            raise ToolFailure(medium.problem)
        return medium

    def _there(self) -> BoxFiles:
        if self._box is None:
            raise ToolFailure("there is no box here: files can be used only in a run's tools")
        return self._box


def _name_of(data: bytes) -> str:
    """Make a name for bytes from their hash. Different bytes get different names."""
    _, ending = sniff(data[:HEAD])
    return f"{hashlib.sha256(data).hexdigest()[:16]}.{ending}"
