"""Writes files that a box's code can read but not change. This works with every engine.

The supervisor has the same user id as the box's code. If it wrote these files, the code could
change them. A read-only mount would need a folder on the engine's machine, and the bot may run on
another machine. So ``/app/uploads`` is a tmpfs that belongs to a second user id of the box. The
engine starts a short process of this user in the container for each file (``exec``) and sends it
the bytes. This process has no capabilities. A file takes about 0.1 s.
"""

import contextlib
import errno
import json
import os
from typing import Any

from nekro_core.sandbox.box import BackendUnavailable, BoxFileError, BoxLost
from nekro_core.sandbox.docker import boot
from nekro_core.sandbox.docker.engine import DockerEngine
from nekro_core.sandbox.docker.images import read_answer
from nekro_core.sandbox.docker.relay import close_given, socket_of
from nekro_core.sandbox.uploads import BoxUploads, upload_parts

_CODES = {
    errno.ENOTDIR: "invalid_input",
    errno.EEXIST: "invalid_input",
    errno.ENAMETOOLONG: "invalid_input",
    errno.ELOOP: "invalid_input",
    errno.EISDIR: "is_a_directory",
    errno.ENOSPC: "too_large",
}


class ContainerUploads:
    """The uploads of one box."""

    def __init__(
        self, engine: DockerEngine, *, container: str, python: str, user: int, held: BoxUploads
    ) -> None:
        self._engine = engine
        self._container = container
        self._command = [python, "-I", "-S", "-c", boot.program("write_upload").decode()]
        self._user = f"{user}:{user}"
        self._held = held

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file; see `Uploads.write`."""
        parts = upload_parts(path)
        with self._held.growing(parts, len(data)):
            await self._write_there(path, parts, data)

    async def _write_there(self, path: str, parts: tuple[str, ...], data: bytes) -> None:
        try:
            answer = await self._engine.ask(self._write, [*self._command, json.dumps(parts)], data)
        except BackendUnavailable as error:
            raise BoxLost(f"{path} could not be written: {error}") from error
        try:
            number = int(json.loads(answer)["error"])
        except ValueError as error:
            raise BoxFileError("limit", f"the box has no process left to write {path}") from error
        if number:
            raise BoxFileError(
                _CODES.get(number, "invalid_input"), f"{path}: {os.strerror(number)}"
            )

    def _write(self, command: list[str], data: bytes) -> bytes:
        client = self._engine.client
        made = client.exec_create(
            self._container, [*command, str(len(data))], stdin=True, user=self._user, workdir="/"
        )
        given: Any = client.exec_start(made["Id"], socket=True)
        sock = socket_of(given)
        try:
            # If the program has ended early, its answer says why.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sock.sendall(data)
            return read_answer(sock, lambda printed: printed.endswith(b"\n"))
        finally:
            close_given(given)
