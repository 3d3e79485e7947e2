"""Reads WAV files of 16-bit PCM with any number of channels, and writes them with one channel.

Source: the RIFF/WAVE format as in RFC 2361 and Microsoft's multimedia data standards (1991).
"""

import array
import struct
import sys
from dataclasses import dataclass

from nekro_core.system.errors import NekroError

_PCM = 1
_EXTENSIBLE = 0xFFFE


class NotWav(NekroError, ValueError):
    """The bytes are not a WAV file that can be read. The message says what was found."""


@dataclass(frozen=True, slots=True)
class PcmSound:
    """Samples of 16-bit little-endian PCM with one channel. ``rate`` is the number of samples per
    second."""

    pcm: bytes
    rate: int

    @property
    def seconds(self) -> float:
        """The length of the sound, in seconds."""
        return len(self.pcm) / 2 / self.rate

    @property
    def peak_amplitude(self) -> int:
        """The largest absolute value of a sample, 0 to 32,768."""
        return max(map(abs, _samples(self.pcm)), default=0)


def write_wav(sound: PcmSound) -> bytes:
    """Return a whole WAV file of the sound."""
    data = sound.pcm[: len(sound.pcm) // 2 * 2]
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, _PCM, 1),
        *(sound.rate, sound.rate * 2, 2, 16, b"data", len(data)),
    )
    return head + data


def read_wav(data: bytes) -> PcmSound:
    """Read a 16-bit PCM WAV file; several channels are mixed to one.

    If a size in the file is larger than the rest of the file, the rest is used. A program that
    writes the file as a stream sets the size of the sound to 0 or to the largest number of 32 bits.
    Then all bytes that follow belong to the sound. Raises `NotWav`.
    """
    if len(data) < 12 or data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise NotWav(f"expected a WAV file (RIFF ... WAVE), got {len(data)} bytes: {data[:12]!r}")
    position = 12
    layout: tuple[int, int] | None = None
    while position + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, position)
        body = position + 8
        if name == b"fmt ":
            layout = _read_format(data[body : body + size])
        elif name == b"data":
            if layout is None:
                raise NotWav("the WAV file has its data before its format")
            channels, rate = layout
            end = len(data) if size in (0, 0xFFFFFFFF) else min(body + size, len(data))
            frame = 2 * channels
            pcm = data[body : body + (end - body) // frame * frame]
            return PcmSound(_mix(pcm, channels), rate)
        position = body + size + size % 2
    raise NotWav("the WAV file holds no data")


def _read_format(chunk: bytes) -> tuple[int, int]:
    if len(chunk) < 16:
        raise NotWav("the WAV file's format is cut short")
    code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
    if code not in (_PCM, _EXTENSIBLE) or bits != 16:
        raise NotWav(f"expected 16-bit PCM, got format {code} with {bits} bits")
    if not 1 <= channels <= 8 or not 1_000 <= rate <= 384_000:
        raise NotWav(f"{channels} channels at {rate} Hz are impossible")
    return channels, rate


def _mix(pcm: bytes, channels: int) -> bytes:
    if channels == 1:
        return pcm
    samples = _samples(pcm)
    mixed = array.array(
        "h",
        (
            sum(samples[start : start + channels]) // channels
            for start in range(0, len(samples), channels)
        ),
    )
    if sys.byteorder == "big":
        mixed.byteswap()
    return mixed.tobytes()


def _samples(pcm: bytes) -> "array.array[int]":
    samples = array.array("h")
    samples.frombytes(pcm[: len(pcm) // 2 * 2])
    if sys.byteorder == "big":
        samples.byteswap()
    return samples
