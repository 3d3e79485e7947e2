"""Frames between a run, the agent of its box, and the host. Imported by both sides.

A frame is 16 bytes (kind, number, length of its text, length of its body, each 32 bits, network
order), then a JSON text, then raw bytes. The agent reads only the 16 bytes of what a run sends:
one decoder alone, the host's, ever parses it.
"""

from __future__ import annotations

import socket
import struct

HEAD = struct.Struct("!IIII")

# From the host.
START, FEED, FINISH, ANSWER, CANCEL, FILE, CHUNK = range(1, 8)
# From the agent; CALL, DONE and END come from a run.
READY, CALL, DONE, RESULT, FILE_DONE, END = range(16, 22)
USED = 40
"""From an agent that meters its box: microseconds of processor time, in the number."""

# Bits of the number of a RESULT.
TRUNCATED, SAID_BY_RUN = 1, 2

TEXT_LIMIT = 1024 * 1024
"""Of the JSON text of one frame. Longer texts and all bytes travel in the body."""

READ_BYTES = 65536
"""At once. More costs more than it saves: 256 KiB are allocated anew for each read, 12 µs."""

UNLIMITED = 0xFFFFFFFF

Frame = tuple[int, int, bytes, bytes]


class ProtocolError(Exception):
    """The other side sent what no frame looks like."""


def frame(kind: int, number: int = 0, text: bytes = b"", body: bytes = b"") -> bytes:
    """The bytes of one frame."""
    return b"".join((HEAD.pack(kind, number, len(text), len(body)), text, body))


def measure(
    buffer: bytearray, body_limit: int, text_limit: int = TEXT_LIMIT
) -> tuple[int, int, int, int] | None:
    """The kind, number, length of text and end of the first frame if it is whole, or None.

    Raises `ProtocolError` as soon as a head announces more than the limits.
    """
    if len(buffer) < HEAD.size:
        return None
    kind, number, text_length, body_length = HEAD.unpack_from(buffer)
    if text_length > text_limit or body_length > body_limit:
        raise ProtocolError(f"a frame of {text_length} + {body_length} bytes")
    end = HEAD.size + text_length + body_length
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


class Channel:
    """Blocking frames over a socket whose other side is trusted to send whole ones."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = bytearray()

    def send(self, kind: int, number: int = 0, text: bytes = b"", body: bytes = b"") -> None:
        """Send one frame, waiting until it is taken."""
        self.sock.sendall(frame(kind, number, text, body))

    def receive(self) -> Frame:
        """The next frame. Raises EOFError when the other side is gone."""
        while True:
            found = split(self.buffer, UNLIMITED, UNLIMITED)
            if found:
                return found
            received = self.sock.recv(READ_BYTES)
            if not received:
                raise EOFError
            self.buffer += received
