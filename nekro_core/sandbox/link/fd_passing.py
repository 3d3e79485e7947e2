"""Receives the file descriptors that a supervisor passes through a socket to the host.

If the supervisor and the host run on the same kernel, the supervisor opens a connection in the
box's network and passes its descriptor to the host. Then the host uses the connection directly.
"""

import asyncio
import os
import socket
import stat
from collections.abc import Callable

from nekro_core.sandbox.guest import guest_wire as wire

_AT_ONCE = 16
_SORTS = ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_STREAM))


class DescriptorReceiver:
    """Calls ``on_socket`` for each received descriptor, with the number in the same message.

    The supervisor is not trusted. Each message must have one stream socket and one number. For any
    other message, ``on_broken`` is called and receiving stops."""

    def __init__(
        self,
        sock: socket.socket,
        on_socket: Callable[[int, socket.socket], None],
        on_broken: Callable[[str], None],
    ) -> None:
        self._socket = sock
        self._on_socket = on_socket
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._descriptor = sock.fileno()
        sock.setblocking(False)
        self._loop.add_reader(self._descriptor, self._readable)

    def close(self) -> None:
        """Stop receiving. May be called twice."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._descriptor)
            self._socket.close()

    def _readable(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                message, descriptors, _, _ = socket.recv_fds(
                    self._socket, wire.DESCRIPTOR_HEAD.size, 4, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except OSError as error:
                self._break(f"its descriptor socket broke: {error}")
                return
            if not message and not descriptors:
                # The supervisor has ended. The channel reports that, so nothing is reported here.
                self.close()
                return
            if not self._take(message, descriptors):
                self._break("its supervisor passed a descriptor that is not a connection")
                return

    def _take(self, message: bytes, descriptors: list[int]) -> bool:
        alone = len(message) == wire.DESCRIPTOR_HEAD.size and len(descriptors) == 1
        if not alone or not stat.S_ISSOCK(os.fstat(descriptors[0]).st_mode):
            for descriptor in descriptors:
                os.close(descriptor)
            return False
        sock = socket.socket(fileno=descriptors[0])
        if (sock.family, sock.type) not in _SORTS:
            sock.close()
            return False
        sock.setblocking(False)
        (number,) = wire.DESCRIPTOR_HEAD.unpack(message)
        self._on_socket(number, sock)
        return True

    def _break(self, reason: str) -> None:
        self.close()
        self._on_broken(reason)
