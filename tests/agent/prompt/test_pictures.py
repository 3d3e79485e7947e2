"""Pictures for a model are made small and encoded again. Decompression bombs are left out."""

import io
import struct
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from PIL import ExifTags, Image

from nekro_core.agent.prompt.pictures import PromptPictures
from nekro_core.media.converter import MediaConverter
from tests.agent.pictures import png


def bomb() -> bytes:
    """Make a PNG of a few kilobytes that claims to have 400 megapixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0" * 100_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
async def converter() -> AsyncIterator[MediaConverter]:
    async with MediaConverter() as converter:
        yield converter


async def test_a_large_picture_becomes_small(converter: MediaConverter, tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(png(3000, 1000))
    part = await PromptPictures(converter, longer_side=512).part(str(path))
    assert part is not None
    assert part.mime == "image/jpeg"
    with Image.open(io.BytesIO(part.data)) as picture:
        assert max(picture.size) == 512


async def test_a_transparent_picture_stays_transparent(
    converter: MediaConverter, tmp_path: Path
) -> None:
    path = tmp_path / "clear.png"
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(path)
    part = await PromptPictures(converter, longer_side=512).part(str(path))
    assert part is not None
    assert part.mime == "image/png"


async def test_a_turned_picture_is_made_upright(converter: MediaConverter) -> None:
    turned = Image.Exif()
    turned[ExifTags.Base.Orientation] = 6
    data = io.BytesIO()
    Image.new("RGB", (40, 20)).save(data, "JPEG", exif=turned)
    made = await converter.picture_to_show(data.getvalue(), longer_side=10)
    with Image.open(io.BytesIO(made.data)) as picture:
        assert picture.size == (5, 10)
        assert not picture.getexif()


@pytest.mark.parametrize(
    "data",
    [b"", b"<html>no picture</html>", png(50, 50)[:60], bomb()],
    ids=["empty", "html", "cut", "bomb"],
)
async def test_data_that_is_not_a_picture_is_left_out(
    converter: MediaConverter, tmp_path: Path, data: bytes
) -> None:
    path = tmp_path / "wrong.png"
    path.write_bytes(data)
    assert await PromptPictures(converter, longer_side=512).part(str(path)) is None


async def test_a_missing_file_is_left_out(converter: MediaConverter, tmp_path: Path) -> None:
    assert await PromptPictures(converter, longer_side=512).part(str(tmp_path / "none.png")) is None


async def test_a_picture_is_encoded_once(converter: MediaConverter, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png())
    pictures = PromptPictures(converter, longer_side=64)
    first = await pictures.part(str(path))
    path.unlink()
    assert await pictures.part(str(path)) is first
