"""Received voices of every kind are converted to WAV, and WAV to the format of a platform."""

import io
from collections.abc import Callable

import av
import pysilk
import pytest

from nekro_core.media.converter import LONGEST_VOICE_S, VOICE_TYPES, MediaConverter
from nekro_core.media.errors import CodecMissing, UnusableMedia
from nekro_core.media.limits import VoiceFormat
from nekro_core.media.plain_wav import plain_wav_seconds
from nekro_core.media.sniff import HEAD, sniff
from nekro_core.media.sound_worker import SoundRequest, _load
from tests.media.sounds import (
    RATE,
    TONE_HZ,
    amr_narrow,
    amr_wide,
    encoded,
    pitch,
    silk,
    tone,
    wav,
)

RECEIVED: dict[str, tuple[Callable[[], bytes], str]] = {
    "SILK of QQ and WeChat": (silk, "audio/silk"),
    "SILK without Tencent's byte": (lambda: silk(tencent=False), "audio/silk"),
    "Opus in Ogg": (lambda: encoded("ogg", "libopus", 48_000), "audio/ogg"),
    "Opus in Ogg, stereo": (
        lambda: encoded("ogg", "libopus", 48_000, layout="stereo"),
        "audio/ogg",
    ),
    "FLAC": (lambda: encoded("flac", "flac", 44_100), "audio/flac"),
    "MP3": (lambda: encoded("mp3", "libmp3lame", 44_100), "audio/mpeg"),
    "M4A": (lambda: encoded("ipod", "aac", 44_100), "audio/mp4"),
    "AAC in MP4": (lambda: encoded("mp4", "aac", 44_100), "video/mp4"),
    "AAC": (lambda: encoded("adts", "aac", 44_100), "audio/aac"),
    "Opus in WebM": (lambda: encoded("webm", "libopus", 48_000), "audio/webm"),
    "WAV of floats": (lambda: encoded("wav", "pcm_f32le", 44_100), "audio/wav"),
    "WAV in mu-law": (lambda: encoded("wav", "pcm_mulaw", 8_000), "audio/wav"),
    "WAV, stereo": (lambda: encoded("wav", "pcm_s16le", 44_100, layout="stereo"), "audio/wav"),
}


def convert(
    data: bytes, mime: str, wanted: str = "wav", *, most: float = 60.0
) -> tuple[bytes, float]:
    """Do in this process what the child process does."""
    plain = plain_wav_seconds(data) is not None
    request = {"mime": mime, "plain": plain, "format": wanted, "max_seconds": most}
    fields, made = SoundRequest(request).handle(data)
    return made, fields["seconds"]


@pytest.mark.parametrize("name", RECEIVED)
def test_a_received_voice_is_recognized_and_decoded(name: str) -> None:
    make, mime = RECEIVED[name]
    data = make()
    assert sniff(data[:HEAD])[0] == mime
    made, seconds = convert(data, mime)
    assert plain_wav_seconds(made) == pytest.approx(seconds)
    assert seconds == pytest.approx(0.5, abs=0.1)
    assert pitch(made) == pytest.approx(TONE_HZ, rel=0.03)


@pytest.mark.parametrize("make", [amr_narrow, amr_wide])
def test_an_amr_voice_is_decoded(make: Callable[[], bytes]) -> None:
    data = make()
    assert sniff(data[:HEAD])[0] == "audio/amr"
    made, seconds = convert(data, "audio/amr")
    assert seconds == pytest.approx(0.5)
    assert any(made[44:])


@pytest.mark.parametrize("wanted", VOICE_TYPES)
def test_a_converted_voice_has_the_requested_format(wanted: VoiceFormat) -> None:
    made, seconds = convert(wav(), "audio/wav", wanted)
    assert seconds == 0.5
    assert sniff(made[:HEAD])[0] == VOICE_TYPES[wanted]
    again, length = convert(made, VOICE_TYPES[wanted])
    assert length == pytest.approx(0.5, abs=0.1)
    assert pitch(again) == pytest.approx(TONE_HZ, rel=0.03)


@pytest.mark.parametrize(
    ("wanted", "codec", "rate"),
    [
        ("ogg", "opus", 48_000),
        ("mp3", "mp3", 24_000),
        ("m4a", "aac", 24_000),
    ],
)
def test_ffmpeg_reads_the_codec_and_the_rate_of_a_converted_voice(
    wanted: str, codec: str, rate: int
) -> None:
    made, _ = convert(wav(rate=16_000, pcm=tone(rate=16_000)), "audio/wav", wanted)
    with av.open(io.BytesIO(made)) as file:
        (stream,) = file.streams
        assert stream.codec_context.name.removeprefix("lib").startswith(codec)
        assert (stream.rate, stream.layout.name) == (rate, "mono")


def test_silk_for_qq_begins_with_byte_2_and_contains_the_whole_sound() -> None:
    pcm = tone(0.51, 16_000)
    made, _ = convert(wav(pcm, rate=16_000), "audio/wav", "silk")
    assert made.startswith(b"\x02#!SILK_V3")
    out = io.BytesIO()
    pysilk.decode(io.BytesIO(made), out, RATE)
    # SILK has packets of 20 ms, and the last one is padded.
    assert len(out.getvalue()) / 2 / RATE == pytest.approx(0.52)


@pytest.mark.parametrize(
    ("data", "mime", "problem"),
    [
        pytest.param(b"", "audio/ogg", "damaged", id="nothing"),
        pytest.param(b"\0" * 4000, "audio/mpeg", "damaged", id="zeros"),
        pytest.param(b"OggS" + b"\0" * 100, "audio/ogg", "damaged", id="a header without data"),
        pytest.param(b"\x02#!SILK_V3", "audio/silk", "no sound", id="SILK without sound"),
        pytest.param(
            b"#!SILK_V3" + b"\xff\x7f" + b"x" * 9,
            "audio/silk",
            "damaged",
            id="SILK that is cut off",
        ),
        pytest.param(b"#!SILK_V4", "audio/silk", "does not begin", id="another SILK"),
        pytest.param(b"#!AMR\n", "audio/amr", "no sound", id="AMR without sound"),
        pytest.param(
            b"MZ" * 100, "application/x-dosexec", "is not a type of sound", id="a program"
        ),
        pytest.param(
            b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/passwd\n",
            "audio/mpeg",
            "damaged",
            id="a playlist",
        ),
        pytest.param(
            b"ffconcat version 1.0\nfile /etc/passwd\n",
            "audio/mp4",
            "damaged",
            id="a list of files",
        ),
    ],
)
def test_a_file_that_is_not_a_sound_is_refused(data: bytes, mime: str, problem: str) -> None:
    with pytest.raises(UnusableMedia, match=problem):
        convert(data, mime)


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        pytest.param(wav(), "audio/wav", id="WAV"),
        pytest.param(silk(), "audio/silk", id="SILK"),
        # 60 kB of empty packets of 20 ms each: the file is refused before it is decoded.
        pytest.param(
            b"#!SILK_V3" + b"\x01\0x" * 20_000, "audio/silk", id="SILK that claims to be long"
        ),
        pytest.param(encoded("ogg", "libopus", 48_000), "audio/ogg", id="Opus"),
    ],
)
def test_a_sound_that_is_too_long_is_refused(data: bytes, mime: str) -> None:
    with pytest.raises(UnusableMedia, match=r"longer than 0\.2 s"):
        convert(data, mime, most=0.2)


def test_a_damaged_packet_is_left_out() -> None:
    data = bytearray(encoded("adts", "aac", 44_100))
    data[len(data) // 2 : len(data) // 2 + 40] = b"\0" * 40
    _, seconds = convert(bytes(data), "audio/aac")
    assert 0.3 < seconds < 0.6


def test_the_error_about_a_missing_library_says_how_to_install_it() -> None:
    with pytest.raises(CodecMissing, match=r"pip install 'nekro-core\[audio\]'"):
        _load("no_library_of_this_name")


def test_a_plain_wav_file_is_converted_to_silk_without_ffmpeg() -> None:
    plain = wav()
    request = {"mime": "audio/wav", "plain": True, "format": "silk", "max_seconds": 9}
    sounds = SoundRequest(request)
    assert sounds._av is None
    assert sounds.handle(plain)[1].startswith(b"\x02")


async def test_a_voice_is_converted_in_a_child_process() -> None:
    converter = MediaConverter()
    sound = await converter.sound(silk(), "audio/silk")
    assert (sound.mime, sound.seconds) == ("audio/wav", pytest.approx(0.5))
    assert pitch(sound.data) == pytest.approx(TONE_HZ, rel=0.03)
    with pytest.raises(UnusableMedia, match="damaged"):
        await converter.sound(b"OggS", "audio/ogg")
    assert LONGEST_VOICE_S * 48_000 < 64 * 1024 * 1024


@pytest.mark.parametrize(
    ("data", "seconds"),
    [
        pytest.param(wav(), 0.5, id="ours"),
        pytest.param(wav(channels=2), None, id="two channels"),
        pytest.param(wav(width=1), None, id="8 bits"),
        pytest.param(b"RIFF\0\0\0\0WAVE", None, id="no data"),
        pytest.param(wav()[:30], None, id="cut in its head"),
        pytest.param(wav()[: 44 + 24_000], 0.5, id="cut in its sound"),
        pytest.param(b"\xff\xfb\x90\0" * 20, None, id="no WAV"),
    ],
)
def test_the_length_of_a_plain_wav_file_is_read_from_its_head(
    data: bytes, seconds: float | None
) -> None:
    assert plain_wav_seconds(data) == seconds


def test_the_length_of_a_wav_file_with_many_chunks_before_the_sound_is_not_read() -> None:
    """A received file may have 4 million chunks, and the main process would read each of them."""
    data = wav()
    stuffed = data[:12] + b"junk\0\0\0\0" * 100 + data[12:]
    assert plain_wav_seconds(data) is not None
    assert plain_wav_seconds(stuffed) is None
