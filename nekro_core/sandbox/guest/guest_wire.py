"""Frames between a run, the supervisor of its box, and the host. Imported by both sides.

A frame is 16 bytes (kind, number, length of its text, length of its body, each 32 bits, network
order), then a JSON text, then raw bytes. The supervisor reads only the 16 bytes of what a run
sends; only the host parses the rest.

A request of the host that does not belong to the run has its own number, counted up: FILE is
answered by FILE_DONE, WORK by WORK_DONE, OPEN by OPENED. A WORK that packs or unpacks and an OPEN
come with a *stream* of the same number. Supervisor and host may share a second socket, the
descriptor socket. Then the supervisor sends the stream through it as a descriptor (with
`DESCRIPTOR_HEAD`), and the stream has no frames. Without that socket the stream is relayed. The
supervisor sends OPENED, then each side sends DATA, at most `WINDOW` bytes before the other has
given CREDIT (decimal, in the text) for what it has passed on. DATA without a body says that this
side sends no more. CLOSE (from either side) ends the stream for both. For each connection to a
relayed listener the supervisor sends ACCEPTED, with the number of a new stream in its text.
"""

from __future__ import annotations

import os
import select
from struct import Struct

HEAD = Struct("!IIII")
DESCRIPTOR_HEAD = Struct("!I")
"""Sent with each descriptor through the descriptor socket: the number of its stream."""

# From the host.
START, FEED, FINISH, ANSWER, CANCEL, FILE, CHUNK, WORK, STOP, OPEN, UNWIND, DROP = range(1, 13)
# UNWIND: a call has ended a run that keeps its globals; the run leaves its statement and sends END.
# DROP: the frozen interpreter is not needed any more.
# From the supervisor; CALL, DONE and END come from a run.
READY, CALL, DONE, RESULT, FILE_DONE, END, WORK_DONE, OPENED, ACCEPTED = range(16, 25)
USED, EXECUTOR, PRINTED, ENDING, MEMORY = range(40, 45)
"""What their numbers mean:

- USED: microseconds of processor time that a run used, from a supervisor that meters its box. The
  text has the bytes of memory that the box uses.
- EXECUTOR: the process id of the executor inside the box, or 0 when it has ended. Commands are its
  descendants.
- PRINTED: bytes that the run had printed before the CALL that follows, if more than at the last
  CALL.
- ENDING: 0. The text says why the supervisor ends, and the box with it.
- MEMORY: kilobytes that the idle box uses, half a second after its last use."""
# From either side: a relayed stream.
DATA, CREDIT, CLOSE = range(32, 35)

WINDOW = 256 * 1024
"""Bytes of a relayed stream that may be in flight in one direction."""

ACCEPTED_BIT = 0x80000000
"""Set in the numbers of streams that the supervisor accepted, never in the host's own numbers."""

# In the number of a START: the run gets the functions of the last run, so the frame leaves them
# out. Allowed only after a RESULT with KEPT: the supervisor knows them until the next START.
SAME_FUNCTIONS = 1

# Bits of the number of a RESULT.
TRUNCATED, SAID_BY_RUN, KEPT = 1, 2, 4

TEXT_LIMIT = 1024 * 1024
"""Bytes of the JSON text of one frame. Longer texts and all bytes are put into the body."""

READ_BYTES = 65536
"""Bytes of one read. More costs more than it saves: a buffer of 256 KiB is allocated for each
read, which takes 12 µs."""

UNLIMITED = 0xFFFFFFFF

OPEN_FILES = 512
"""Descriptors that a process of a box may have."""

FOLDERS = ("/home/user", "/tmp", "/dev/shm")
"""Where code of a box may make files. Each is a tmpfs, so that its files are memory."""

Frame = tuple[int, int, bytes, bytes]


class ProtocolError(Exception):
    """The other side sent something that is not a valid frame."""


def frame(kind: int, number: int = 0, text: bytes = b"", body: bytes = b"") -> bytes:
    """The bytes of one frame."""
    return b"".join((HEAD.pack(kind, number, len(text), len(body)), text, body))


def measure(
    buffer: bytearray, body_limit: int, text_limit: int = TEXT_LIMIT, start: int = 0
) -> tuple[int, int, int, int] | None:
    """Return kind, number, length of text and end of the frame at ``start``; None if incomplete.

    Raises `ProtocolError` as soon as a head announces more than the limits.
    """
    if len(buffer) - start < HEAD.size:
        return None
    kind, number, text_length, body_length = HEAD.unpack_from(buffer, start)
    if text_length > text_limit or body_length > body_limit:
        raise ProtocolError(f"a frame of {text_length} + {body_length} bytes")
    end = start + HEAD.size + text_length + body_length
    return (kind, number, text_length, end) if len(buffer) >= end else None


def split(buffer: bytearray, body_limit: int, text_limit: int = TEXT_LIMIT) -> Frame | None:
    """Remove the first frame from ``buffer``: (kind, number, text, body), or None if incomplete."""
    found = measure(buffer, body_limit, text_limit)
    if found is None:
        return None
    return take(buffer, *found)


def take(buffer: bytearray, kind: int, number: int, text_length: int, end: int) -> Frame:
    """Remove the first frame from ``buffer``, as `measure` found it."""
    middle = HEAD.size + text_length
    text, body = bytes(buffer[HEAD.size : middle]), bytes(buffer[middle:end])
    del buffer[:end]
    return kind, number, text, body


class BlockingChannel:
    """Sends and receives frames, blocking. The other side is trusted to send whole frames.

    Both descriptors are one socket, or two pipes, as an attached container has them.
    """

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming = incoming
        self.outgoing = outgoing
        self.buffer = bytearray()

    def send(self, kind: int, number: int = 0, text: bytes = b"", body: bytes = b"") -> None:
        """Send one frame. Blocks until it is written."""
        self.send_bytes(frame(kind, number, text, body))

    def send_bytes(self, data: bytes | bytearray) -> None:
        """Send whole frames. Blocks until they are written."""
        sent = os.write(self.outgoing, data)
        while sent < len(data):
            sent += os.write(self.outgoing, data[sent : sent + READ_BYTES])

    def read(self) -> bool:
        """Wait for bytes and add them to the buffer. False when the other side has closed."""
        received = os.read(self.incoming, READ_BYTES)
        self.buffer += received
        return bool(received)

    def waits(self) -> bool:
        """Whether there is something to read."""
        return bool(select.select([self.incoming], [], [], 0)[0])

    def received(self) -> Frame | None:
        """Return the next frame if it is complete, else None."""
        return split(self.buffer, UNLIMITED, UNLIMITED)

    def receive(self) -> Frame:
        """Wait for the next frame. Raises EOFError when the other side has closed."""
        while True:
            found = self.received()
            if found:
                return found
            if not self.read():
                raise EOFError
