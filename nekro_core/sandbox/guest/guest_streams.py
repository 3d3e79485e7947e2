"""A host that is reached over standard input and output, as a container's is."""

from __future__ import annotations

import os


class StandardStreams:
    """What the agent uses of a socket, over two pipes. Runs inherit neither."""

    def __init__(self) -> None:
        self._input, self._output = os.dup(0), os.dup(1)
        nothing = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1):
            os.dup2(nothing, number)
        os.close(nothing)

    def fileno(self) -> int:
        """What to wait for when nothing is there to be read."""
        return self._input

    def recv(self, size: int) -> bytes:
        """Some bytes; none at the end."""
        return os.read(self._input, size)

    def sendall(self, data: bytes) -> None:
        """Send it all, waiting until it is taken."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._output, view) :]
