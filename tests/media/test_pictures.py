"""Pictures are converted and reduced to the limits of a platform."""

import io
from typing import Any

import pytest
from PIL import Image

from nekro_core.media.errors import UnusableMedia
from nekro_core.media.limits import PictureLimits
from nekro_core.media.picture_worker import PictureRequest
from tests.media.pictures import drawn, moving


def fitted(data: bytes, **limits: Any) -> tuple[bytes, Image.Image, str]:
    """Do in this process what the child does. Return the new bytes, the new picture and its media
    type."""
    wanted = PictureLimits(**limits)
    request = {name: getattr(wanted, name) for name in PictureLimits.__slots__}
    fields, made = PictureRequest(request).handle(data)
    made = made or data
    picture = Image.open(io.BytesIO(made))
    picture.load()
    assert Image.MIME[picture.format or ""] == fields["mime"]
    assert fields["mime"] in wanted.types
    assert len(made) <= wanted.max_bytes
    return made, picture, fields["mime"]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_a_picture_within_the_limits_is_unchanged(kind: str) -> None:
    data = drawn(kind)
    assert fitted(data, max_side=60)[0] == data


@pytest.mark.parametrize(
    ("limits", "size"),
    [
        pytest.param({"max_side": 30}, (30, 20), id="limit of the longer side"),
        pytest.param({"max_sides": 50}, (30, 20), id="limit of the sum of the sides"),
        pytest.param({"max_pixels": 600}, (30, 20), id="limit of the pixels"),
        pytest.param(
            {"max_side": 30, "max_sides": 10_000}, (30, 20), id="the tightest of two limits"
        ),
    ],
)
def test_a_picture_of_too_many_pixels_is_made_smaller(
    limits: dict[str, Any], size: tuple[int, int]
) -> None:
    _, picture, mime = fitted(drawn(noise=False), **limits)
    assert (picture.size, mime) == (size, "image/png")


def test_a_picture_of_too_many_bytes_is_made_smaller() -> None:
    data = drawn(size=(400, 300))
    _, picture, mime = fitted(data, max_bytes=20_000)
    assert mime == "image/jpeg"
    assert picture.width < 400


@pytest.mark.parametrize(
    ("kind", "mode", "types", "becomes"),
    [
        ("WEBP", "RGB", ("image/jpeg", "image/png"), "image/jpeg"),
        ("WEBP", "RGBA", ("image/jpeg", "image/png"), "image/png"),
        ("PNG", "RGBA", ("image/jpeg",), "image/jpeg"),
        ("BMP", "RGB", ("image/jpeg", "image/png"), "image/png"),
        ("JPEG", "RGB", ("image/png",), "image/png"),
        ("JPEG", "CMYK", ("image/jpeg", "image/png"), "image/jpeg"),
        ("PNG", "RGB", ("image/gif",), "image/gif"),
        ("PNG", "RGB", ("image/webp",), "image/webp"),
    ],
)
def test_a_picture_of_another_type_is_converted(
    kind: str, mode: str, types: tuple[Any, ...], becomes: str
) -> None:
    data = drawn(kind, mode=mode)
    # The CMYK picture has an accepted type and is only too large.
    assert fitted(data, types=types, max_side=50)[2] == becomes


def test_transparent_parts_become_white() -> None:
    clear = io.BytesIO()
    Image.new("RGBA", (40, 40), (0, 0, 0, 0)).save(clear, "PNG")
    _, picture, _ = fitted(clear.getvalue(), types=("image/jpeg",))
    assert picture.getpixel((20, 20)) == (255, 255, 255)


def test_a_photograph_is_rotated_by_its_exif_orientation() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # this orientation means: turned by 90 degrees
    _, picture, _ = fitted(drawn("JPEG", exif=exif), max_side=30)
    assert picture.size == (20, 30)


@pytest.mark.parametrize(
    ("limits", "mime", "frames"),
    [
        pytest.param({}, "image/gif", 3, id="unchanged"),
        pytest.param({"max_side": 50}, "image/gif", 3, id="smaller"),
        pytest.param({"max_bytes": 10_000}, "image/gif", 3, id="fewer bytes"),
        pytest.param({"animated": False}, "image/png", 1, id="only its first picture is shown"),
        pytest.param({"types": ("image/png",)}, "image/png", 1, id="GIF is not accepted"),
        pytest.param({"max_bytes": 1_500}, "image/jpeg", 1, id="too few bytes for an animation"),
    ],
)
def test_an_animation_is_kept_if_the_platform_accepts_it(
    limits: dict[str, Any], mime: str, frames: int
) -> None:
    _, picture, became = fitted(moving((60, 45), 3), **limits)
    assert (became, getattr(picture, "n_frames", 1)) == (mime, frames)
    if frames == 3:
        durations = []
        for number in range(frames):
            picture.seek(number)
            durations.append(picture.info["duration"])
        assert durations == [40, 80, 120]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"", "damaged", id="nothing"),
        pytest.param(drawn()[:60], "damaged", id="a PNG that is cut off"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "damaged", id="SVG"),
        pytest.param(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "damaged", id="EPS"),
    ],
)
def test_a_file_that_is_not_a_picture_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(UnusableMedia, match=problem):
        fitted(data, max_side=20)


def test_a_limit_that_no_picture_can_meet_is_an_error() -> None:
    with pytest.raises(UnusableMedia, match="at most 10 bytes"):
        fitted(drawn(), max_bytes=10)
