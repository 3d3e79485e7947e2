"""Makes the sockets through which boxes pass file descriptors to the host, if the engine runs on
this machine.

An engine's stream cannot carry descriptors. So each box gets a separate folder with one listening
socket, mounted read-only. The supervisor connects before untrusted code runs in the box, and then
the socket is removed from the folder. The bot may run in a container, or the engine in a virtual
machine. Then bot and engine do not see the same folders, and the socket does not work. The first
box shows whether the socket works. If it does not work, connections are relayed over the channel
that also carries the tool calls.
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
"""The path of the folder inside a box."""
ADDRESS = f"{SOCKET_FOLDER}/descriptors"

_CREDENTIALS = struct.Struct("3i")


class DescriptorSockets:
    """The folder of all descriptor sockets of this process. For each box that starts or runs, it
    contains a folder with the box's socket."""

    def __init__(self, folder: LockedTempFolder) -> None:
        self._folder = folder

    @classmethod
    def open(cls, wanted: Path | None) -> "DescriptorSockets":
        """Make the folder in ``wanted``; None to choose a folder for temporary files. Raises
        `OSError`."""
        parents = (parent for parent in temp_parents() if os.access(parent, os.W_OK | os.X_OK))
        folder = LockedTempFolder(wanted or next(parents, temp_parents()[-1]), "nekro-descriptors-")
        folder.path.chmod(0o711)  # Other users can enter the folder, but not list it.
        return cls(folder)

    def make(self, box_id: str) -> "DescriptorSocket":
        """Make a socket that listens for the supervisor of a box. Raises `OSError`."""
        return DescriptorSocket(self._folder.path / box_id)

    def close(self) -> None:
        """Delete the folder with its files."""
        self._folder.remove()


class DescriptorSocket:
    """A listening socket for the connection of one supervisor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o711)
        folder.chmod(0o711)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            # Use a short path through the folder's descriptor, because the path of a socket may
            # have at most 107 bytes.
            place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
            try:
                self._listener.bind(f"/proc/self/fd/{place}/descriptors")
            finally:
                os.close(place)
            (folder / "descriptors").chmod(0o666)  # The box has another user id than this process.
            self._listener.listen(1)
            self._listener.setblocking(False)
        except BaseException:
            self.close()
            raise

    async def accept(self, user: int | None) -> socket.socket:
        """Accept the supervisor's connection and close the listener.

        If ``user`` is given and the other process has another user id, raises
        `BackendUnavailable`.
        """
        loop = asyncio.get_running_loop()
        try:
            sock, _ = await loop.sock_accept(self._listener)
        finally:
            self.close()
        found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if user is not None and _CREDENTIALS.unpack(found)[1] != user:
            sock.close()
            raise BackendUnavailable("a process that is not the supervisor connected to the socket")
        return sock

    def close(self) -> None:
        """Stop listening and remove the socket. The empty folder stays mounted in the box."""
        self._listener.close()
        (self.folder / "descriptors").unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the folder. Call this after the end of the box."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def engine_is_local(host: str) -> bool:
    """Return True if the engine at this address may be on this machine."""
    address = host or os.environ.get("DOCKER_HOST", "")
    return not address or address.startswith("unix:")
