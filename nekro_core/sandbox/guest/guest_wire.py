"""Frames between a run, the supervisor of its box, and the host. Imported by both sides.

A frame is 16 bytes (kind, number, length of its text, length of its body, each 32 bits, network
order), then a JSON text, then raw bytes. The supervisor reads only the 16 bytes of what a run
sends: one decoder alone, the host's, ever parses it.

What the host asks beside its run has a number of its own, counted up: FILE is answered by
FILE_DONE, WORK by WORK_DONE, OPEN by OPENED. A WORK that packs or unpacks and an OPEN come with a
*stream* of the same number. Supervisor and host may share a second socket, the descriptor socket.
Then the supervisor sends the stream through it as a descriptor (`DESCRIPTOR_HEAD` beside it), and
no frame of the stream passes here. Without that socket the stream is relayed: the supervisor says
OPENED, then each side sends DATA, at most `WINDOW` bytes before the other has given CREDIT
(decimal, in the text) for what it has passed on. DATA without a body says that this side sends no
more. CLOSE (from either side) ends the stream for both. A relayed listener says ACCEPTED, with the
number of a new stream in its text.
"""

from __future__ import annotations

import os
import select
from struct import Struct

HEAD = Struct("!IIII")
DESCRIPTOR_HEAD = Struct("!I")
"""What goes through the descriptor socket beside a descriptor: the number of its stream."""

# From the host.
START, FEED, FINISH, ANSWER, CANCEL, FILE, CHUNK, WORK, STOP, OPEN, UNWIND, DROP = range(1, 13)
# UNWIND: a call of a run that keeps its globals has ended it; the run leaves its statement and says
# END. DROP: the kept interpreter is not wanted any more.
# From the supervisor; CALL, DONE and END come from a run.
READY, CALL, DONE, RESULT, FILE_DONE, END, WORK_DONE, OPENED, ACCEPTED = range(16, 25)
USED, EXECUTOR, PRINTED, ENDING, MEMORY = range(40, 45)
"""In their numbers: microseconds of a run's processor time, from a supervisor that meters its box,
with the bytes of memory that this uses in the text; the process id inside of the executor, below
which commands are, or 0 when it is gone; bytes that the run had printed when it made the CALL which
comes next, said where they became more; 0, with a text that says why the supervisor ends, and the
box with it; the kilobytes that the box uses while nobody uses it, told half a second after the last
use."""
# From either side: a relayed stream.
DATA, CREDIT, CLOSE = range(32, 35)

WINDOW = 256 * 1024
"""Bytes of a relayed stream that may be on their way in one direction."""

ACCEPTED_BIT = 0x80000000
"""In the numbers of streams that the supervisor accepted; the host's own never have it."""

# Of the number of a START: it is given the functions that the last one was, and they are left out.
# Only after a RESULT that says KEPT: until the next START the supervisor knows them.
SAME_FUNCTIONS = 1

# Bits of the number of a RESULT.
TRUNCATED, SAID_BY_RUN, KEPT = 1, 2, 4

TEXT_LIMIT = 1024 * 1024
"""Of the JSON text of one frame. Longer texts and all bytes travel in the body."""

READ_BYTES = 65536
"""At once. More costs more than it saves: 256 KiB are allocated anew for each read, 12 µs."""

UNLIMITED = 0xFFFFFFFF

OPEN_FILES = 512
"""Descriptors that a process of a box may have."""

FOLDERS = ("/home/user", "/tmp", "/dev/shm")
"""Where code of a box may make files. Each is a tmpfs, so that its files are memory."""

Frame = tuple[int, int, bytes, bytes]


class ProtocolError(Exception):
    """The other side sent what no frame looks like."""


def frame(kind: int, number: int = 0, text: bytes = b"", body: bytes = b"") -> bytes:
    """The bytes of one frame."""
    return b"".join((HEAD.pack(kind, number, len(text), len(body)), text, body))


def measure(
    buffer: bytearray, body_limit: int, text_limit: int = TEXT_LIMIT, start: int = 0
) -> tuple[int, int, int, int] | None:
    """The kind, number, length of text and end of the frame at ``start`` if it is whole, or None.

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
    """Take the first whole frame off ``buffer``: (kind, number, text, body), or None."""
    found = measure(buffer, body_limit, text_limit)
    if found is None:
        return None
    return take(buffer, *found)


def take(buffer: bytearray, kind: int, number: int, text_length: int, end: int) -> Frame:
    """Take the first frame off ``buffer`` as `measure` found it."""
    middle = HEAD.size + text_length
    text, body = bytes(buffer[HEAD.size : middle]), bytes(buffer[middle:end])
    del buffer[:end]
    return kind, number, text, body


class BlockingChannel:
    """Blocking frames over descriptors whose other side is trusted to send whole ones.

    One descriptor of a socket, or two of pipes, as an attached container has them.
    """

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming = incoming
        self.outgoing = outgoing
        self.buffer = bytearray()

    def send(self, kind: int, number: int = 0, text: bytes = b"", body: bytes = b"") -> None:
        """Send one frame, waiting until it is taken."""
        self.send_bytes(frame(kind, number, text, body))

    def send_bytes(self, data: bytes | bytearray) -> None:
        """Send whole frames, waiting until they are taken."""
        sent = os.write(self.outgoing, data)
        while sent < len(data):
            sent += os.write(self.outgoing, data[sent : sent + READ_BYTES])

    def read(self) -> bool:
        """Add what is there to the buffer, waiting for something. False when nobody sends."""
        received = os.read(self.incoming, READ_BYTES)
        self.buffer += received
        return bool(received)

    def waits(self) -> bool:
        """Whether something is there to be read."""
        return bool(select.select([self.incoming], [], [], 0)[0])

    def received(self) -> Frame | None:
        """The next frame if it is here, or None."""
        return split(self.buffer, UNLIMITED, UNLIMITED)

    def receive(self) -> Frame:
        """The next frame. Raises EOFError when the other side is gone."""
        while True:
            found = self.received()
            if found:
                return found
            if not self.read():
                raise EOFError
