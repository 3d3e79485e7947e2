"""Makes sounds for tests: a tone of 440 Hz, encoded by PyAV or by the standard library."""

import io
import math
import random
import struct
import wave
from itertools import pairwise
from typing import Any

import av
import pysilk

TONE_HZ = 440
RATE = 24_000


def tone(seconds: float = 0.5, rate: int = RATE) -> bytes:
    """Return the tone as 16-bit PCM with one channel."""
    count = int(rate * seconds)
    wave_of = (int(9_000 * math.sin(2 * math.pi * TONE_HZ * n / rate)) for n in range(count))
    return struct.pack(f"<{count}h", *wave_of)


def wav(pcm: bytes | None = None, *, rate: int = RATE, channels: int = 1, width: int = 2) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(tone() if pcm is None else pcm)
    return out.getvalue()


def encoded(container: str, codec: str, rate: int, *, layout: str = "mono") -> bytes:
    """The tone, written by PyAV."""
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        stream: Any = file.add_stream(codec, rate=rate)
        stream.layout = layout
        frame = av.AudioFrame(format="s16", layout="mono", samples=len(tone()) // 2)
        frame.sample_rate = RATE
        frame.planes[0].update(tone())
        resampler = av.AudioResampler(format=stream.format.name, layout=layout, rate=rate)
        for piece in (*resampler.resample(frame), *resampler.resample(None)):
            file.mux(stream.encode(piece))
        file.mux(stream.encode(None))
    return out.getvalue()


def silk(*, tencent: bool = True, pcm: bytes | None = None) -> bytes:
    out = io.BytesIO()
    pysilk.encode(io.BytesIO(tone() if pcm is None else pcm), out, RATE, RATE, tencent=tencent)
    return out.getvalue()


def amr_narrow(seconds: float = 0.5) -> bytes:
    """Like `amr_wide`, but for AMR-NB (narrow band): the header 0x04 and any 12 bytes are a frame
    of the mode 4.75 (RFC 4867, section 5.3)."""
    bits = random.Random(1)
    frames = (b"\x04" + bits.randbytes(12) for _ in range(int(seconds * 50)))
    return b"#!AMR\n" + b"".join(frames)


def amr_wide(seconds: float = 0.5) -> bytes:
    """There is no free encoder for AMR-WB, so the frames are made by hand: the header 0x04 and any
    17 bytes are a frame of its lowest mode (RFC 4867, section 5.3). The result is noise."""
    bits = random.Random(1)
    frames = (b"\x04" + bits.randbytes(17) for _ in range(int(seconds * 50)))
    return b"#!AMR-WB\n" + b"".join(frames)


def pitch(data: bytes) -> float:
    """The pitch of a WAV file in hertz: its upward zero crossings per second. The first and last
    quarter are not counted, because encoders fade there."""
    with wave.open(io.BytesIO(data)) as file:
        rate = file.getframerate()
        samples = struct.unpack(f"<{file.getnframes()}h", file.readframes(file.getnframes()))
    middle = samples[len(samples) // 4 : -len(samples) // 4]
    ups = sum(before < 0 <= after for before, after in pairwise(middle))
    return ups * rate / len(middle)
