"""Defines the frames that a run, the supervisor of its box, and the host send each other. The host
imports this module too.

A frame is a head of 16 bytes (kind, number, length of its text, length of its body, each 32 bits,
network byte order), then a JSON text, then raw bytes. The supervisor reads only the heads of a
run's frames. Only the host parses the rest.

A request of the host that does not belong to a run has a new number. The answer has the same
number. FILE reads or changes a file of the box, and is answered by FILE_DONE. WORK gives work to
the executor, the process that runs shell commands; it is answered by WORK_DONE. OPEN asks the
supervisor to connect to a TCP port in the box, or to listen at one; it is answered by OPENED.

A *stream* is a two-way connection between the host and the box. An OPEN that connects makes one.
So does a WORK that packs files of the box into an archive or unpacks an archive there: the stream
carries the archive. The stream has the number of the request.

Supervisor and host may have a second socket, the descriptor socket. Then the supervisor passes the
stream's socket, or the listening socket, through it as a descriptor (with `DESCRIPTOR_HEAD`), and
no frames are sent for the stream. Without a descriptor socket the stream is *relayed*: its bytes
are sent in frames. The supervisor sends OPENED, then each side sends DATA. Each side may send
`WINDOW` bytes; to send more, it needs CREDIT. A side sends CREDIT (a decimal number in the text)
for bytes that it has received and passed on. DATA without a body says that this side sends no more.
If one side sends CLOSE, the stream ends in both directions. If the OPEN was to listen, each
connection that the supervisor accepts becomes a new relayed stream. For each, the supervisor sends
ACCEPTED with the number of the OPEN, and with the number of the new stream in the text.
"""

from __future__ import annotations

import os
import select
from struct import Struct

HEAD = Struct("!IIII")
DESCRIPTOR_HEAD = Struct("!I")
"""The message with each descriptor in the descriptor socket: the number of its stream."""

# The kinds of frames that the host sends.
START, FEED, FINISH, ANSWER, CANCEL, FILE, CHUNK, WORK, STOP, OPEN, UNWIND, DROP = range(1, 13)
# UNWIND: instead of an ANSWER, the host says that the run must end. It is sent only to a run whose
# globals are kept for the next run, because killing the run would lose them. The waiting call
# raises an exception. The exception ends the statement, and the run sends END.
# DROP: the supervisor can kill the frozen process that keeps the globals of the last run (see KEPT
# below).
# The kinds of frames that a run or the supervisor sends. A run sends CALL, DONE and END to the
# supervisor. The supervisor forwards CALL and DONE to the host. After an END, or when it has ended
# the run itself, it sends RESULT.
READY, CALL, DONE, RESULT, FILE_DONE, END, WORK_DONE, OPENED, ACCEPTED = range(16, 25)
USED, EXECUTOR, PRINTED, ENDING, MEMORY = range(40, 45)
"""More kinds of frames that the supervisor sends. The number in such a frame means:

- USED: microseconds of processor time that a run used. Sent by a supervisor that measures its box.
  The text has the number of bytes of memory that the box uses, in decimal.
- EXECUTOR: the process id of the executor inside the box, or 0 if it has ended. Commands are its
  descendants.
- PRINTED: bytes that the run had printed before the CALL that follows this frame. Sent only if the
  run has printed something since its last CALL.
- ENDING: always 0. The text says why the supervisor and the box end.
- MEMORY: kilobytes that the idle box uses, half a second after its last use."""
# The kinds of frames that either side sends, about a relayed stream.
DATA, CREDIT, CLOSE = range(32, 35)

WINDOW = 256 * 1024
"""How many bytes of a relayed stream may be sent in one direction without CREDIT."""

ACCEPTED_BIT = 0x80000000
"""A bit that is set in the numbers of streams that the supervisor accepted, and never in the
numbers of the host's requests."""

# A bit in the number of a START. It says that the run gets the functions of the last run, so the
# frame does not have them. The bit is allowed only after a RESULT with KEPT, because then the
# supervisor stores the functions until the next START.
SAME_FUNCTIONS = 1

# The number of a RESULT is made of these bits:
# TRUNCATED: the run printed more than its limit, and the rest is not in the body.
# SAID_BY_RUN: the text comes from the END of the run, so the host does not trust it.
# KEPT: the process of the run is frozen with its globals, for the next run.
TRUNCATED, SAID_BY_RUN, KEPT = 1, 2, 4

TEXT_LIMIT = 1024 * 1024
"""Limit in bytes of the JSON text of one frame. Bytes and long texts are put into the body."""

READ_BYTES = 65536
"""Maximum number of bytes of one read. A larger read is slower: allocating a buffer of 256 KiB for
each read takes 12 µs."""

UNLIMITED = 0xFFFFFFFF

OPEN_FILES = 512
"""Maximum number of open descriptors of a process in a box."""

FOLDERS = ("/home/user", "/tmp", "/dev/shm")
"""The folders in which code in a box can make files. Each is a tmpfs, so its files need memory."""

Frame = tuple[int, int, bytes, bytes]


class ProtocolError(Exception):
    """A received frame is not valid."""


def frame(kind: int, number: int = 0, text: bytes = b"", body: bytes = b"") -> bytes:
    """Make the bytes of one frame."""
    return b"".join((HEAD.pack(kind, number, len(text), len(body)), text, body))


def measure(
    buffer: bytearray, body_limit: int, text_limit: int = TEXT_LIMIT, start: int = 0
) -> tuple[int, int, int, int] | None:
    """Return four numbers of the frame that begins at the index ``start`` of ``buffer``: its kind,
    its number, the length of its text, and the index after its end. Return None if the frame is not
    complete yet.

    Raises `ProtocolError` if the lengths in the head are above the limits (in bytes), even if the
    frame is not complete yet.
    """
    if len(buffer) - start < HEAD.size:
        return None
    kind, number, text_length, body_length = HEAD.unpack_from(buffer, start)
    if text_length > text_limit or body_length > body_limit:
        raise ProtocolError(f"a frame of {text_length} + {body_length} bytes")
    end = start + HEAD.size + text_length + body_length
    return (kind, number, text_length, end) if len(buffer) >= end else None


def split(buffer: bytearray, body_limit: int, text_limit: int = TEXT_LIMIT) -> Frame | None:
    """Remove the first frame from ``buffer`` and return (kind, number, text, body). Return None if
    the frame is not complete yet."""
    found = measure(buffer, body_limit, text_limit)
    if found is None:
        return None
    return take(buffer, *found)


def take(buffer: bytearray, kind: int, number: int, text_length: int, end: int) -> Frame:
    """Remove the first frame from ``buffer`` and return it. The other arguments are what `measure`
    returned for it."""
    middle = HEAD.size + text_length
    text, body = bytes(buffer[HEAD.size : middle]), bytes(buffer[middle:end])
    del buffer[:end]
    return kind, number, text, body


class BlockingChannel:
    """Sends and receives frames with blocking calls. The other process is trusted to send valid
    frames.

    ``incoming`` and ``outgoing`` are descriptors. They can be the same socket, or a pair of pipes
    (in a container).
    """

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming = incoming
        self.outgoing = outgoing
        self.buffer = bytearray()

    def send(self, kind: int, number: int = 0, text: bytes = b"", body: bytes = b"") -> None:
        """Send one frame. Blocks until all bytes are written."""
        self.send_bytes(frame(kind, number, text, body))

    def send_bytes(self, data: bytes | bytearray) -> None:
        """Send whole frames. Blocks until all bytes are written."""
        sent = os.write(self.outgoing, data)
        while sent < len(data):
            sent += os.write(self.outgoing, data[sent : sent + READ_BYTES])

    def read(self) -> bool:
        """Wait for bytes and add them to the buffer. Return False if the other process has closed
        its end."""
        received = os.read(self.incoming, READ_BYTES)
        self.buffer += received
        return bool(received)

    def waits(self) -> bool:
        """Return True if there are bytes to read."""
        return bool(select.select([self.incoming], [], [], 0)[0])

    def received(self) -> Frame | None:
        """Return the next frame if it is complete. Otherwise return None."""
        return split(self.buffer, UNLIMITED, UNLIMITED)

    def receive(self) -> Frame:
        """Wait for the next frame. Raises EOFError if the other process has closed its end."""
        while True:
            found = self.received()
            if found:
                return found
            if not self.read():
                raise EOFError
