"""An outgoing medium is converted to a format that the platform accepts. If there is none, it is
sent as the most similar kind that the platform has: a file, a link or text."""

from pathlib import Path

import pytest

from nekro_core.chat import ChatKey, File, Image, Media, Segment, Text, Video, Voice
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.adapter import Capabilities
from nekro_core.delivery.media.fitter import MediaFitter, format_of
from nekro_core.delivery.media.links import MediaLinks
from nekro_core.delivery.media.store import MediaStore
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.media.converter import MediaConverter, Picture, Sound
from nekro_core.media.errors import CodecMissing, UnusableMedia
from nekro_core.media.limits import PictureLimits, VoiceFormat, VoiceLimits
from nekro_core.store import Store
from tests.delivery.conftest import GROUP
from tests.delivery.fakes import FakeAdapter
from tests.media.pictures import drawn
from tests.media.sounds import encoded, silk, wav

EVERYTHING = frozenset({Text, Image, Voice, Video, File})


def can(*types: type, **more: object) -> Capabilities:
    carried = frozenset(types) or EVERYTHING
    return Capabilities(inline=carried & {Text, Image}, alone=carried - {Text, Image}, **more)  # type: ignore[arg-type]


class OneWordConverter(MediaConverter):
    """A converter that returns a fixed result at once, or raises ``error``."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error
        self.asked: list[object] = []

    async def sound(
        self, data: bytes, mime: str, wanted: VoiceFormat = "wav", *, max_seconds: float = 600.0
    ) -> Sound:
        self.asked.append((mime, wanted))
        if self.error:
            raise self.error
        made = {"silk": silk(), "wav": wav()}.get(wanted) or b"OggS" + b"OpusHead"
        return Sound(data=made, mime=f"audio/{wanted}", seconds=0.5)

    async def check_picture(self, path: Path, mime: str, *, max_pixels: int) -> None:
        assert mime.startswith("image/")

    async def picture(self, data: bytes, limits: PictureLimits) -> Picture:
        self.asked.append(limits)
        if self.error:
            raise self.error
        return Picture(data=drawn("JPEG"), mime="image/jpeg")


class FitterUnderTest:
    """A `MediaFitter` on a media store in a folder."""

    def __init__(self, folder: Path, error: Exception | None = None, address: str = "") -> None:
        self.converter = OneWordConverter(error)
        self.media = MediaStore(folder, converter=self.converter)
        links = MediaLinks(folder, lambda: "secret", address=address)
        self.fitting = MediaFitter(self.media, self.converter, links)

    async def fit(
        self, segment_type: type, data: bytes, name: str, able: Capabilities, text: str = ""
    ) -> Segment:
        media = await self.media.keep_bytes(GROUP, data, name=name, expect="file")
        assert not media.problem
        segment = segment_type(media, text) if text else segment_type(media)
        fitted = await self.fitting.fit(GROUP, (segment,), able)
        return segment if fitted is None else fitted[0]


@pytest.fixture
def fitter(tmp_path: Path) -> FitterUnderTest:
    return FitterUnderTest(tmp_path)


OGG = VoiceLimits(formats=("ogg", "mp3"))


async def test_a_voice_of_another_format_is_converted(fitter: FitterUnderTest) -> None:
    voice = await fitter.fit(Voice, wav(), "hello.wav", can(voice=OGG), "hello")
    assert isinstance(voice, Voice)
    assert fitter.converter.asked == [("audio/wav", "ogg")]
    assert (voice.media.mime, voice.media.name) == ("audio/ogg", "hello.ogg")
    assert (voice.media.seconds, voice.text) == (0.5, "hello")
    assert await fitter.media.read(GROUP, voice.media.path) == b"OggSOpusHead"


@pytest.mark.parametrize(
    ("data", "limits"),
    [
        pytest.param(wav(), VoiceLimits(), id="WAV"),
        pytest.param(encoded("mp3", "libmp3lame", 44_100), OGG, id="the second of two formats"),
        pytest.param(encoded("ogg", "libopus", 48_000), OGG, id="Opus"),
        pytest.param(silk(), VoiceLimits(formats=("silk",)), id="SILK"),
        pytest.param(b"anything", None, id="no limits are known"),
    ],
)
async def test_a_voice_in_an_accepted_format_is_not_converted(
    fitter: FitterUnderTest, data: bytes, limits: VoiceLimits | None
) -> None:
    voice = await fitter.fit(Voice, data, "v", can(voice=limits))
    assert isinstance(voice, Voice)
    assert await fitter.media.read(GROUP, voice.media.path) == data
    assert fitter.converter.asked == []


@pytest.mark.parametrize(
    ("data", "mime", "is_format"),
    [
        (wav(channels=2), "audio/wav", None),
        (b"OggS" + b"\x7fFLAC", "audio/ogg", None),
        (silk(tencent=False), "audio/silk", None),
        (b"#!AMR\n", "audio/amr", None),
        (b"\xff\xfb", "audio/mpeg", "mp3"),
        (b"....ftypM4A", "audio/mp4", "m4a"),
        (b"fLaC", "audio/flac", None),
    ],
)
def test_a_voice_format_is_recognized_by_content_and_type(
    data: bytes, mime: str, is_format: str | None
) -> None:
    assert format_of(data, mime) == is_format


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        pytest.param(VoiceLimits(max_seconds=0.3), None, id="too long"),
        pytest.param(VoiceLimits(max_bytes=100), None, id="too large"),
        pytest.param(OGG, UnusableMedia("damaged"), id="cannot be converted"),
    ],
)
async def test_a_voice_that_cannot_be_sent_as_a_voice_becomes_a_file(
    tmp_path: Path, limits: VoiceLimits, error: Exception | None
) -> None:
    fitter = FitterUnderTest(tmp_path, error)
    assert isinstance(await fitter.fit(Voice, wav(), "v.wav", can(voice=limits)), File)
    refused = await fitter.fit(Voice, wav(), "v.wav", can(Voice, Text, voice=limits))
    assert isinstance(refused, Voice)
    assert refused.media.problem


@pytest.mark.parametrize(("converts", "kind"), [(True, Voice), (False, File)])
async def test_without_the_audio_library_a_voice_is_unchanged_or_becomes_a_file(
    tmp_path: Path, converts: bool, kind: type
) -> None:
    """A platform that converts voices itself gets the voice unchanged. Any other platform gets a
    file."""
    fitter = FitterUnderTest(tmp_path, CodecMissing("pip install 'nekro-core[audio]'"))
    limits = VoiceLimits(formats=("ogg",), converts=converts)
    voice = await fitter.fit(Voice, wav(), "v.wav", can(voice=limits))
    assert isinstance(voice, kind)
    assert voice.media.mime == "audio/wav"


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        pytest.param(PictureLimits(), False, id="fits"),
        pytest.param(PictureLimits(types=("image/jpeg",)), True, id="another kind"),
        pytest.param(PictureLimits(max_bytes=100), True, id="too large"),
        pytest.param(PictureLimits(max_side=59), True, id="too wide"),
        pytest.param(PictureLimits(max_sides=99), True, id="too wide and high"),
        pytest.param(PictureLimits(max_pixels=2_399), True, id="too many pixels"),
        pytest.param(PictureLimits(animated=False), True, id="the picture may be animated"),
    ],
)
async def test_pictures_are_converted_if_they_exceed_the_limits(
    fitter: FitterUnderTest, limits: PictureLimits, asked: bool
) -> None:
    image = await fitter.fit(Image, drawn(), "cat.png", can(picture=limits))
    assert isinstance(image, Image)
    assert fitter.converter.asked == ([limits] if asked else [])
    name = ("image/jpeg", "cat.jpg") if asked else ("image/png", "cat.png")
    assert (image.media.mime, image.media.name) == name


async def test_a_picture_that_cannot_be_converted_becomes_a_file(tmp_path: Path) -> None:
    fitter = FitterUnderTest(tmp_path, UnusableMedia("too much"))
    limits = PictureLimits(max_bytes=10)
    assert isinstance(await fitter.fit(Image, drawn(), "cat.png", can(picture=limits)), File)


@pytest.mark.parametrize("kind", [Voice, Video, Image])
async def test_a_medium_that_a_platform_lacks_becomes_a_file(
    fitter: FitterUnderTest, kind: type
) -> None:
    assert isinstance(await fitter.fit(kind, drawn(), "x.png", can(Text, File)), File)


async def test_on_a_platform_without_files_a_medium_becomes_text(
    fitter: FitterUnderTest, tmp_path: Path
) -> None:
    spoken = await fitter.fit(Voice, wav(), "v.wav", can(Text), "good night")
    assert spoken == Text("[voice] good night")
    silent = await fitter.fit(Voice, wav(), "v.wav", can(Text))
    assert isinstance(silent, Voice)  # `split` later reports that the platform cannot send a voice
    linked = FitterUnderTest(tmp_path, address="https://bot.example.org")
    text = await linked.fit(Image, drawn(), "cat.png", can(Text))
    assert isinstance(text, Text)
    assert text.text.startswith("cat.png: https://bot.example.org/media/")


@pytest.mark.parametrize("kind", [File, Video])
async def test_a_file_that_is_too_large_becomes_a_link(tmp_path: Path, kind: type) -> None:
    fitter = FitterUnderTest(tmp_path, address="https://bot.example.org")
    text = await fitter.fit(kind, b"x" * 1_500_000, "holiday.mp4", can(file_bytes=1_000_000))
    assert isinstance(text, Text)
    assert text.text.startswith("holiday.mp4 (1.4 MiB): https://bot.example.org/media/")
    small = await fitter.fit(kind, b"x" * 1_000_000, "a.mp4", can(file_bytes=1_000_000))
    assert isinstance(small, kind)


async def test_without_links_a_file_that_is_too_large_is_refused(
    fitter: FitterUnderTest,
) -> None:
    file = await fitter.fit(File, b"x" * 2_000, "big.bin", can(file_bytes=1_000))
    assert isinstance(file, File)
    assert "NEKRO_DELIVERY__MEDIA__LINK_ADDRESS" in file.media.problem


class Talker(FakeAdapter):
    """A platform with voices in Opus and files of 1 MB."""

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        return can(voice=VoiceLimits(formats=("ogg",)), file_bytes=1_000_000)


async def test_the_outbox_sends_the_fitted_medium(
    store: Store, activity: Broadcast, tmp_path: Path
) -> None:
    """The voice is really converted. The outbox converts it before it stores the row, so the
    history has the fitted medium."""
    (tmp_path / "holiday.mp4").write_bytes(b"x" * 1_500_000)
    adapter, media = Talker(text_length=4_000), MediaStore(tmp_path)
    links = MediaLinks(tmp_path, lambda: "secret", address="https://bot.example.org")
    fitting = MediaFitter(media, MediaConverter(), links)
    outbox = Outbox(store, {"fake": adapter}, activity, media=media, fitting=fitting)
    async with outbox:
        hello = await media.keep_bytes(GROUP, wav(), name="hello.wav", expect="audio")
        large = Media(path=str(tmp_path / "holiday.mp4"), name="holiday.mp4")
        receipts = await outbox.send(GROUP, (Voice(hello, "hello"), File(large)))
    assert all(receipt.ok for receipt in receipts)
    (voice,), (link,) = adapter.said(GROUP)
    assert isinstance(voice, Voice)
    assert voice.media.seconds == 0.5
    sent = await media.read(GROUP, voice.media.path)
    assert sent is not None
    assert format_of(sent, voice.media.mime) == "ogg"
    assert isinstance(link, Text)
    assert link.text.startswith("holiday.mp4 (1.4 MiB): https://bot.example.org/media/")
    recorded = await store.messages.newest(GROUP, 9)
    assert [each.segments for each in recorded] == [(voice,), (link,)]


async def test_a_medium_with_a_problem_is_not_fitted(fitter: FitterUnderTest) -> None:
    lost = File(Media(name="x", problem="gone"))
    assert await fitter.fitting.fit(GROUP, (lost, Text("and more")), can(file_bytes=1)) is None
