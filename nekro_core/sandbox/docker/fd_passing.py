"""The sockets through which boxes pass descriptors, where the engine runs on this machine.

No descriptor crosses an engine's stream. Each box gets a folder with one listening socket mounted
read-only; its supervisor connects before anything strange runs in the box, and then there is
nothing in the folder any more. Whether engine and bot see the same folders cannot be asked, only
tried: a bot in a container of its own, an engine in a virtual machine. Where it does not work,
connections are relayed over the channel instead.
"""

import asyncio
import os
import shutil
import socket
import struct
from pathlib import Path

from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.system.locked_temp_folder import LockedTempFolder, temp_parents

SOCKET_FOLDER = "/run/nekro"
"""The folder, as a box sees it."""
ADDRESS = f"{SOCKET_FOLDER}/descriptors"

_CREDENTIALS = struct.Struct("3i")


class DescriptorSockets:
    """A folder of this process's, with one below it for each box that is being made or lives."""

    def __init__(self, folder: LockedTempFolder) -> None:
        self._folder = folder

    @classmethod
    def open(cls, wanted: Path | None) -> "DescriptorSockets":
        """Make the folder. Raises `OSError`."""
        parents = (parent for parent in temp_parents() if os.access(parent, os.W_OK | os.X_OK))
        folder = LockedTempFolder(wanted or next(parents, temp_parents()[-1]), "nekro-descriptors-")
        folder.path.chmod(0o711)  # nothing to list: a box's folder is found by who knows its name
        return cls(folder)

    def make(self, box_id: str) -> "DescriptorSocket":
        """Listen for the supervisor of a box. Raises `OSError`."""
        return DescriptorSocket(self._folder.path / box_id)

    def close(self) -> None:
        """Delete it all."""
        self._folder.remove()


class DescriptorSocket:
    """A socket that listens for one supervisor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o711)
        folder.chmod(0o711)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            # By the folder's descriptor: the path of a socket has at most 107 bytes.
            place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
            try:
                self._listener.bind(f"/proc/self/fd/{place}/descriptors")
            finally:
                os.close(place)
            (folder / "descriptors").chmod(0o666)  # the box's user has an id of its own
            self._listener.listen(1)
            self._listener.setblocking(False)
        except BaseException:
            self.close()
            raise

    async def accept(self, user: int | None) -> socket.socket:
        """The supervisor's connection; with ``user``, only that user id's. Closes the way.

        Raises `BackendUnavailable` for anybody else.
        """
        loop = asyncio.get_running_loop()
        try:
            sock, _ = await loop.sock_accept(self._listener)
        finally:
            self.close()
        found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if user is not None and _CREDENTIALS.unpack(found)[1] != user:
            sock.close()
            raise BackendUnavailable("another process than the supervisor connected to its box")
        return sock

    def close(self) -> None:
        """Listen no more. The folder stays mounted, empty, as long as the box lives."""
        self._listener.close()
        (self.folder / "descriptors").unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the folder, of a box that is gone."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def engine_is_local(host: str) -> bool:
    """Whether the engine at this address may be on this machine."""
    address = host or os.environ.get("DOCKER_HOST", "")
    return not address or address.startswith("unix:")
