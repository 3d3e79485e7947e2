"""SVG pictures are drawn in a confined process, because models cannot read them and most platforms
cannot show them."""

import io
from pathlib import Path

import pytest
from PIL import Image

from nekro_core.media.converter import MediaConverter
from nekro_core.media.errors import UnusableMedia
from nekro_core.media.sniff import sniff
from nekro_core.media.svg_worker import natural_size, usable_fonts
from nekro_core.system.fonts import font_folders
from tests.media.test_hostile_files import LANDLOCK

NAMESPACE = "xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink'"
FONTS = usable_fonts(font_folders())


def svg(inside: str, size: str = "width='200' height='100'") -> bytes:
    return f"<svg {NAMESPACE} {size}>{inside}</svg>".encode()


async def drawn(data: bytes) -> Image.Image:
    made = await MediaConverter().draw_svg(data)
    assert made.mime == "image/png"
    return Image.open(io.BytesIO(made.data)).convert("RGB")


def colours(picture: Image.Image) -> set[tuple[int, ...]]:
    return {colour for _, colour in picture.getcolors(1 << 24) or []}


async def test_an_svg_is_drawn_on_white_and_enlarged() -> None:
    picture = await drawn(svg("<rect width='100' height='100' fill='#ff0000'/>"))
    assert picture.size == (640, 320)
    assert (picture.getpixel((10, 10)), picture.getpixel((600, 10))) == (
        (255, 0, 0),
        (255, 255, 255),
    )


@pytest.mark.skipif(not (FONTS and LANDLOCK), reason="no font, or no Landlock to bound its files")
@pytest.mark.parametrize("family", ["", "font-family='Arial'", "font-family='serif'"])
async def test_text_is_drawn_even_if_its_font_is_missing(family: str) -> None:
    picture = await drawn(svg(f"<text x='10' y='60' font-size='40' {family}>Hello</text>"))
    assert (0, 0, 0) in colours(picture)


async def test_a_picture_cannot_show_a_file_of_this_machine(tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    Image.new("RGB", (200, 100), "#00ff00").save(secret)
    inside = "".join(
        f"<image {name}='{path}' width='200' height='100'/>"
        for name in ("href", "xlink:href")
        for path in (str(secret), secret.as_uri())
    )
    assert colours(await drawn(svg(inside))) == {(255, 255, 255)}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"<svg", "cannot be drawn"),
        (b"\xff\xfe<svg>", "not written in UTF-8"),
        (svg("", "width='3e5' height='3e5'"), "gave up"),
        (svg("<g>" * 100_000), "gave up"),
        (svg("", "width='0' height='0'"), "cannot be drawn"),
        (b"<!DOCTYPE svg [<!ENTITY a 'aaaa'>" + b"]>" + svg("&b;"), "cannot be drawn"),
        (b" " * 5_000_000, "more than"),
    ],
)
async def test_an_svg_that_cannot_be_drawn_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(UnusableMedia, match=problem):
        await MediaConverter().draw_svg(data)


async def test_entities_that_expand_exponentially_are_refused() -> None:
    entities = "".join(
        f"<!ENTITY e{number} '{f'&e{number - 1};' * 10}'>" for number in range(1, 12)
    )
    bomb = f"<!DOCTYPE svg [<!ENTITY e0 'aaaaaaaaaa'>{entities}]>".encode() + svg("<g>&e11;</g>")
    with pytest.raises(UnusableMedia):
        await MediaConverter().draw_svg(bomb)


@pytest.mark.parametrize(
    ("root", "size"),
    [
        ("<svg width='20' height='10'>", (20, 10)),
        ("<svg width='20px' height=\"10.5px\">", (20, 10.5)),
        ("<svg viewBox='0 0 24,12'>", (24, 12)),
        ("<svg width='100%' height='100%' viewBox='0 0 24 12'>", (24, 12)),
        ("<svg>", None),
        ("<svg viewBox='a b c d'>", None),
    ],
)
def test_the_size_is_read_from_the_root_element(
    root: str, size: tuple[float, float] | None
) -> None:
    assert natural_size(root) == size


@pytest.mark.parametrize(
    "head",
    [
        b"<svg xmlns='x'>",
        b"<?xml version='1.0'?>\n<svg>",
        b"\xef\xbb\xbf<?xml version='1.0'?><!-- made -- by hand --> <!DOCTYPE svg>\n<svg\n>",
    ],
)
def test_an_svg_is_recognized_after_its_prolog(head: bytes) -> None:
    assert sniff(head) == ("image/svg+xml", "svg")


@pytest.mark.parametrize("head", [b"<?xml version='1.0'?><svgx>", b"<?xml?><a><svg>", b"<!--<svg>"])
def test_another_xml_file_is_not_recognized_as_svg(head: bytes) -> None:
    assert sniff(head)[0] != "image/svg+xml"
