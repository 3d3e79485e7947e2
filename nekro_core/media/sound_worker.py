"""A program that decodes and encodes one sound. Only `nekro_core.media.converter` runs it.

SILK is the format of QQ and WeChat and has its own library. FFmpeg handles all other formats. The
demuxer is chosen by the type of the bytes. FFmpeg never guesses it, because FFmpeg could take the
bytes for a playlist and open the files and addresses that it names.

Sources: RFC 3267 and RFC 4867 (AMR), RFC 7845 (Opus in Ogg), "SILK Speech Codec"
(draft-vos-silk-02). Tencent's files have a byte 0x02 before the SILK data.
"""

import importlib
import io
import pkgutil
import struct
import wave
from collections.abc import Iterator
from typing import Any

from nekro_core.media.child import Answer, serve_once
from nekro_core.media.errors import CodecMissing, UnusableMedia

_SILK = b"#!SILK_V3"
_TENCENT = b"\x02"
_SILK_RATE = 24_000
_SILK_BITS = 24_000
"""Bits per second with which QQ's phone apps record."""
_PACKET_MS = 20
_SPEECH_RATE = 24_000
"""Samples per second. This rate can represent sound of up to 12 kHz, which is enough for voices."""

_DEMUXERS = {
    "audio/ogg": "ogg",
    "audio/mpeg": "mp3",
    "audio/aac": "aac",
    "audio/mp4": "mov",
    "video/mp4": "mov",
    "video/3gpp": "mov",
    "audio/wav": "wav",
    "audio/amr": "amr",
    "audio/flac": "flac",
    "video/webm": "matroska",
    "audio/webm": "matroska",
}
_DECODERS = frozenset(
    {
        "opus", "libopus", "vorbis", "speex", "libspeex", "mp3", "mp3float", "mp2", "mp2float",
        "aac", "aac_latm", "alac", "flac", "amrnb", "amrwb", "libopencore_amrnb",
        "libopencore_amrwb", "pcm_s16le", "pcm_s24le", "pcm_s32le", "pcm_u8", "pcm_f32le",
        "pcm_f64le", "pcm_alaw", "pcm_mulaw", "adpcm_ms", "adpcm_ima_wav", "gsm_ms",
    }
)  # fmt: skip
"""The codecs of voices. FFmpeg has hundreds of other codecs, most of which were never tested
against attacks."""

_ENCODERS = {
    "ogg": ("ogg", "libopus", 48_000, 32_000),
    "mp3": ("mp3", "libmp3lame", 24_000, 64_000),
    "m4a": ("ipod", "aac", 24_000, 48_000),
}
"""Container, encoder, samples and bits per second, by the format that a platform accepts."""


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CodecMissing(
            f"sound of this kind needs a library ({error}): pip install 'nekro-core[audio]'"
        ) from None


def _load_av() -> Any:
    """Load PyAV with all its modules. PyAV would load some modules only when a stream needs them.
    At that time the process is already confined and cannot open files."""
    av = _load("av")
    for part in pkgutil.walk_packages(av.__path__, "av."):
        if part.name not in ("av.__main__", "av.datasets"):
            _load(part.name)
    return av


class SoundRequest:
    """One request: the ``mime`` of the data, the ``format`` to make, and at most ``max_seconds`` of
    sound. ``plain`` says that the data is a 16-bit WAV with one channel, which needs no library."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._mime = str(request["mime"])
        self._format = str(request["format"])
        self._most = float(request["max_seconds"])
        self._av: Any = None
        self._silk: Any = None
        if self._mime not in {"audio/silk", *_DEMUXERS}:
            raise UnusableMedia(f"{self._mime} is not a type of sound that can be decoded")
        if "silk" in (self._format, self._mime.removeprefix("audio/")):
            self._silk = _load("pysilk")
        self._plain = bool(request["plain"])
        if self._format in _ENCODERS or (self._mime in _DEMUXERS and not self._plain):
            self._av = _load_av()

    def handle(self, data: bytes) -> Answer:
        """Answer the request."""
        pcm, rate = self._decode(data)
        return {"seconds": len(pcm) / 2 / rate}, self._encode(pcm, rate)

    def _decode(self, data: bytes) -> tuple[bytes, int]:
        if self._mime == "audio/silk":
            pcm, rate = self._decode_silk(data), _SILK_RATE
        elif self._plain:
            with wave.open(io.BytesIO(data)) as file:
                pcm, rate = file.readframes(file.getnframes()), file.getframerate()
        else:
            pcm, rate = self._decode_with_ffmpeg(data, _DEMUXERS[self._mime])
        if not pcm:
            raise UnusableMedia("there is no sound in it")
        if len(pcm) > self._most * rate * 2:
            raise self._too_long()
        return pcm, rate

    def _too_long(self) -> UnusableMedia:
        return UnusableMedia(f"it is longer than {self._most:g} s")

    def _decode_silk(self, data: bytes) -> bytes:
        if _silk_seconds(data) > self._most:
            raise self._too_long()
        out = io.BytesIO()
        try:
            self._silk.decode(io.BytesIO(data), out, _SILK_RATE)
        except self._silk.SilkError as error:
            raise UnusableMedia(f"the SILK sound is damaged: {error}") from None
        return out.getvalue()

    def _decode_with_ffmpeg(self, data: bytes, demuxer: str) -> tuple[bytes, int]:
        av = self._av
        try:
            with av.open(io.BytesIO(data), format=demuxer) as container:
                streams = container.streams.audio
                if not streams:
                    raise UnusableMedia("there is no sound in it")
                stream = streams[0]
                if stream.codec_context.name not in _DECODERS:
                    raise UnusableMedia(
                        f"sound coded as {stream.codec_context.name} is not decoded"
                    )
                stream.thread_count = 1
                rate = min(int(stream.rate or 0) or _SPEECH_RATE, _SPEECH_RATE)
                resampler = av.AudioResampler(format="s16", layout="mono", rate=rate)
                pcm = bytearray()
                for frame in self._frames(container, stream):
                    for piece in resampler.resample(frame):
                        pcm += bytes(piece.planes[0])[: piece.samples * 2]
                    if len(pcm) > self._most * rate * 2:
                        raise self._too_long()
                return bytes(pcm), rate
        except av.FFmpegError as error:
            raise UnusableMedia(f"the sound is damaged: {error.strerror}") from None
        except (ValueError, IndexError, OverflowError) as error:
            raise UnusableMedia(f"the sound is damaged: {error}") from None

    def _frames(self, container: Any, stream: Any) -> Iterator[Any]:
        """Yield the decoded frames, then None, which tells the resampler that the sound has ended.
        A damaged packet is skipped, as players also do."""
        for packet in container.demux(stream):
            try:
                yield from packet.decode()
            except self._av.InvalidDataError:
                continue
        yield None

    def _encode(self, pcm: bytes, rate: int) -> bytes:
        if self._format == "wav":
            return _wav(pcm, rate)
        if self._format == "silk":
            return self._encode_silk(pcm, rate)
        return self._encode_with_ffmpeg(pcm, rate)

    def _encode_silk(self, pcm: bytes, rate: int) -> bytes:
        if rate != _SILK_RATE:
            pcm = _resampled(pcm, rate, _SILK_RATE)
        # Fill up the last packet, because the encoder drops an incomplete packet.
        packet = _SILK_RATE * _PACKET_MS // 1000 * 2
        out = io.BytesIO()
        try:
            self._silk.encode(
                io.BytesIO(pcm + bytes(-len(pcm) % packet)), out, _SILK_RATE, _SILK_BITS
            )
        except self._silk.SilkError as error:
            raise UnusableMedia(f"no SILK can be made of it: {error}") from None
        return out.getvalue()

    def _encode_with_ffmpeg(self, pcm: bytes, rate: int) -> bytes:
        av = self._av
        container_name, codec, new_rate, bits = _ENCODERS[self._format]
        out = io.BytesIO()
        with av.open(out, "w", format=container_name) as container:
            stream = container.add_stream(codec, rate=new_rate)
            stream.layout = "mono"
            stream.bit_rate = bits
            resampler = av.AudioResampler(format=stream.format.name, layout="mono", rate=new_rate)
            for frame in (*_frames_of(av, pcm, rate), None):
                for piece in resampler.resample(frame):
                    container.mux(stream.encode(piece))
            container.mux(stream.encode(None))
        return out.getvalue()


def _wav(pcm: bytes, rate: int) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm)
    return out.getvalue()


def _frames_of(av: Any, pcm: bytes, rate: int) -> Iterator[Any]:
    step = rate * 2  # bytes of one second of sound
    for start in range(0, len(pcm), step):
        part = pcm[start : start + step]
        frame = av.AudioFrame(format="s16", layout="mono", samples=len(part) // 2)
        frame.sample_rate = rate
        frame.pts = start // 2
        frame.planes[0].update(part)
        yield frame


def _resampled(pcm: bytes, rate: int, new_rate: int) -> bytes:
    """Resample by linear interpolation. This is good enough for speech and does not need FFmpeg."""
    samples = struct.unpack(f"<{len(pcm) // 2}h", pcm[: len(pcm) // 2 * 2])
    count = len(samples) * new_rate // rate
    made = []
    for number in range(count):
        place, rest = divmod(number * rate, new_rate)
        left = samples[place]
        right = samples[min(place + 1, len(samples) - 1)]
        made.append(left + (right - left) * rest // new_rate)
    return struct.pack(f"<{count}h", *made)


def _silk_seconds(data: bytes) -> float:
    """Return the seconds of sound that the number of packets claims. Each packet begins with its
    length, two bytes."""
    if not data.removeprefix(_TENCENT).startswith(_SILK):
        raise UnusableMedia("it does not begin like a SILK file")
    place = data.index(_SILK) + len(_SILK)
    count = 0
    while place + 2 <= len(data):
        (length,) = struct.unpack_from("<H", data, place)
        if length >= 0x8000:  # A length of -1 marks the end.
            break
        place += 2 + length
        count += 1
    return count * _PACKET_MS / 1000


def main() -> None:
    """Serve one request."""
    serve_once(lambda request: SoundRequest(request).handle)


if __name__ == "__main__":
    main()
