"""Tests of the parts that voice engines share: settings, the cleaning of texts, Japanese readings,
and WAV files."""

import struct
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nekro_core.speech.choose import open_speaker
from nekro_core.speech.edge import EdgeSpeaker
from nekro_core.speech.japanese import number_in_kanji, to_kana
from nekro_core.speech.settings import SpeechSettings
from nekro_core.speech.speaker import EngineUnavailable, TextUnspeakable
from nekro_core.speech.text import clean_text, language_of
from nekro_core.speech.wav import NotWav, PcmSound, read_wav, write_wav


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (SpeechSettings(), "espeak"),
        (SpeechSettings(engine="piper"), "piper+espeak"),
        (SpeechSettings(engine="edge"), "edge"),
        (SpeechSettings(engine="http", base_url="http://127.0.0.1:1/v1"), "http"),
    ],
)
async def test_the_settings_select_the_engine(settings: SpeechSettings, name: str) -> None:
    speaker = open_speaker(settings)
    assert speaker.name == name
    await speaker.aclose()


def test_an_http_engine_needs_an_address() -> None:
    with pytest.raises(ValidationError, match="base_url is"):
        SpeechSettings(engine="http")


@pytest.mark.skipif(find_spec("edge_tts") is not None, reason="edge-tts is installed")
async def test_the_error_says_how_to_install_edge_tts() -> None:
    with pytest.raises(EngineUnavailable, match=r"pip install 'nekro-core\[edge\]'"):
        await EdgeSpeaker().speak("hello")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("  hello \n world ", "hello world"),
        ("**bold** `code`", "bold code"),
        ("hi 😀👨‍👩‍👧 there", "hi there"),
        ("ﾊﾝｶｸ ＡＢＣ", "ハンカク ABC"),
        ("5 € + 3 = 8 €", "5 € + 3 = 8 €"),
        ("zero\u200bwidth", "zero width"),
    ],
)
def test_markup_and_emoji_are_removed_from_the_text(text: str, clean: str) -> None:
    assert clean_text(text) == clean


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_any_text_is_cleaned_or_refused(text: str) -> None:
    try:
        clean = clean_text(text)
    except TextUnspeakable:
        return
    assert clean == clean.strip()
    assert "\n" not in clean
    clean.encode()
    assert language_of(clean)


@pytest.mark.parametrize(
    ("text", "kana"),
    [
        ("今日は天気がいい", "キョーワ テンキガ イイ"),
        ("東京へ行きました。", "トーキョーエ イキマシタ。"),
        ("16が出た", "ジューロクガ デタ"),
        ("おやすみなさい", "オヤスミナサイ"),
    ],
)
def test_japanese_is_converted_to_its_spoken_kana(text: str, kana: str) -> None:
    assert to_kana(text).replace(" ", "") == kana.replace(" ", "")


@pytest.mark.parametrize(
    ("digits", "kanji"),
    [
        ("0", "零"),
        ("10", "十"),
        ("16", "十六"),
        ("2026", "二千二十六"),
        ("10000", "一万"),
        ("1,234,567", "百二十三万四千五百六十七"),
        ("100000000", "一億"),
        ("3.14", "三点一四"),
        ("007", "七"),
        ("12345678901234567", "一二三四五六七八九〇一二三四五六七"),
    ],
)
def test_numbers_are_read_in_japanese(digits: str, kanji: str) -> None:
    assert number_in_kanji(digits) == kanji


@given(st.binary(max_size=400), st.integers(8_000, 48_000))
def test_a_written_wav_file_is_read_back_unchanged(pcm: bytes, rate: int) -> None:
    even = pcm[: len(pcm) // 2 * 2]
    assert read_wav(write_wav(PcmSound(pcm, rate))) == PcmSound(even, rate)


@given(st.binary(max_size=300))
def test_any_bytes_are_parsed_as_a_sound_or_refused(data: bytes) -> None:
    for candidate in (data, b"RIFF\0\0\0\0WAVE" + data, b"RIFF\0\0\0\0WAVEfmt " + data):
        try:
            read_wav(candidate)
        except NotWav:
            continue


def test_a_wrong_size_in_a_wav_header_is_ignored() -> None:
    whole = write_wav(PcmSound(b"\1\2" * 10, 8_000))
    for size in (0, 0xFFFFFFFF, 1_000_000):
        assert read_wav(whole[:40] + struct.pack("<I", size) + whole[44:]).pcm == b"\1\2" * 10


def test_two_channels_are_mixed_to_one() -> None:
    data = struct.pack("<4h", 100, 300, -100, -300)
    head = write_wav(PcmSound(data, 8_000))
    stereo = head[:22] + struct.pack("<HIIHH", 2, 8_000, 32_000, 4, 16) + head[36:]
    assert read_wav(stereo) == PcmSound(struct.pack("<2h", 200, -200), 8_000)


def test_the_error_names_an_unsupported_wav_format() -> None:
    head = write_wav(PcmSound(b"\0\0", 8_000))
    floats = head[:20] + struct.pack("<H", 3) + head[22:]
    with pytest.raises(NotWav, match="format 3"):
        read_wav(floats)
