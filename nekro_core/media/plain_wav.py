"""Reads the length of a WAV file with 16-bit PCM and one channel, which every platform and program
plays."""

import struct

_MOST_CHUNKS = 64
"""The largest number of chunks before the sound. Recorders write only a few; a file with 4 million
empty chunks kept the bot busy for seconds."""


def plain_wav_seconds(data: bytes) -> float | None:
    """Return the seconds of a 16-bit PCM WAV file with one channel; None for any other file."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return None
    place = 12
    rate = 0
    for _ in range(_MOST_CHUNKS):
        if place + 8 > len(data):
            break
        name, size = struct.unpack_from("<4sI", data, place)
        if name == b"fmt ":
            if size < 16 or place + 24 > len(data):
                return None
            code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", data, place + 8)
            if (code, channels, bits) != (1, 1, 16) or not rate:
                return None
        elif name == b"data":
            return min(size, len(data) - place - 8) / 2 / rate if rate else None
        place += 8 + size + size % 2
    return None
