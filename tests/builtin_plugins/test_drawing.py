"""Cards and charts are posted in the chat. The code gets an error if one cannot be drawn."""

import io
import math
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFont

from nekro_core.api.fonts import font_folders
from nekro_core.chat import Image as ImageSegment
from nekro_core.tools.outcome import BehaviorReturn, ToolCallFailed
from plugins.drawing.card import CardTooLong, draw_card_png
from plugins.drawing.chart import InvalidChartData, draw_chart_png
from plugins.drawing.coverage import Coverage, read_coverage
from plugins.drawing.fonts import FontBook
from plugins.drawing.palette import PALETTES
from plugins.drawing.sheet import format_value, ticks
from plugins.drawing.typeset import FontMissing, Style, Typesetter
from tests.builtin_plugins.conftest import Call
from tests.plugins.world import World

BLACK = Style(40, (0, 0, 0))


@pytest.fixture(scope="module")
def bare() -> FontBook:
    """A font book of a machine without fonts."""
    return FontBook(None, [])


@pytest.fixture(scope="module")
def fonts() -> FontBook:
    """A font book of this machine."""
    return FontBook(None, font_folders())


def picture(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    assert image.format == "PNG"
    return image


def colours(image: Image.Image) -> int:
    return len(image.convert("RGB").getcolors(image.width * image.height))


# --- through the tools --------------------------------------------------------------------------


async def test_a_card_reaches_the_chat(world: World, run: Call) -> None:
    drawn = await run("draw_card", "hello")
    assert isinstance(drawn, BehaviorReturn)
    assert "hello" in drawn.text
    ((_, (segment,), _),) = world.outgoing.sent
    assert isinstance(segment, ImageSegment)
    assert picture(Path(segment.media.path).read_bytes()).width == 1080


async def test_a_chart_reaches_the_chat(world: World, run: Call) -> None:
    drawn = await run("draw_chart", "bar", ["a", "b"], [1, 2.5], title="Two")
    assert drawn == BehaviorReturn("Sent a bar chart to the chat: Two: a 1, b 2.5")
    ((_, (segment,), _),) = world.outgoing.sent
    assert picture(Path(segment.media.path).read_bytes()).width == 1280


@pytest.mark.parametrize(
    ("tool", "args", "says"),
    [
        ("draw_card", ("",), "no words"),
        ("draw_card", ("x" * 3_001,), "at most 3,000"),
        ("draw_card", ("\n".join("x" * 400),), "shorten the text"),
        ("draw_card", ("hi", "", "pink"), "style"),
        ("draw_chart", ("bar", ["a"], [1, 2]), "1 labels and 2 values"),
        ("draw_chart", ("bar", [], []), "at least one"),
        ("draw_chart", ("radar", ["a"], [1]), "kind"),
        ("draw_chart", ("pie", ["a", "b"], [1, -2]), "no negative slices"),
        ("draw_chart", ("pie", ["a"], [0]), "all values are 0"),
        ("draw_chart", ("pie", ["a"] * 13, [1] * 13), "at most 12"),
        ("draw_chart", ("line", ["a"] * 201, [1] * 201), "at most 200"),
        ("draw_chart", ("line", ["a"], [1e300]), "up to 1e15"),
        ("draw_chart", ("line", ["a"], [1e-320]), "at least 1e-12"),
        ("draw_chart", ("line", ["a"], ["many"]), "values"),
    ],
)
async def test_the_error_for_an_impossible_drawing_says_what_is_wrong(
    world: World, run: Call, tool: str, args: tuple, says: str
) -> None:
    failed = await run(tool, *args)
    assert isinstance(failed, ToolCallFailed)
    assert says in failed.message
    assert not world.outgoing.sent


async def test_an_operators_own_font_is_used(world: World, run: Call) -> None:
    folder = world.data_dir / "fonts"
    folder.mkdir()
    built_in = ImageFont.load_default(20).font_bytes
    (folder / "Mine-Regular.ttf").write_bytes(built_in)
    book = FontBook(folder, font_folders())
    assert book.face("a", bold=False, language="").path == folder / "Mine-Regular.ttf"
    assert isinstance(await run("draw_card", "hello"), BehaviorReturn)


# --- cards --------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", [*PALETTES, "auto"])
def test_every_style_draws_a_card(bare: FontBook, style: str) -> None:
    assert colours(picture(draw_card_png(bare, "hello", "", style))) > 200


def test_without_fonts_latin_text_is_drawn_and_other_characters_are_named_in_the_error(
    bare: FontBook,
) -> None:
    assert picture(draw_card_png(bare, "Grüße, café! 😀", "Señor", "auto"))
    with pytest.raises(FontMissing) as raised:
        draw_card_png(bare, "hello 你好你", "", "auto")
    assert raised.value.characters == "你好"
    with pytest.raises(FontMissing):
        draw_card_png(bare, "🎉🎉", "", "auto")
    with pytest.raises(FontMissing):
        draw_chart_png(bare, "bar", ["一月"], [1], "")


@pytest.mark.parametrize(
    "text", ["晚安，做个好梦", "お誕生日おめでとう！", "안녕하세요", "Привет", "hello 世界 🎉"]
)
def test_a_script_is_drawn_if_the_machine_has_a_font_for_it(fonts: FontBook, text: str) -> None:
    try:
        Typesetter(fonts, text).require(text)
    except FontMissing as error:
        pytest.skip(f"no font for {error.characters} on this machine")
    assert picture(draw_card_png(fonts, text, "", "auto"))
    assert picture(draw_card_png(fonts, f"- {text}\n" * 9, text, "night"))


def test_long_words_and_punctuation_are_wrapped_to_the_width(bare: FontBook) -> None:
    setter = Typesetter(bare, "")
    for text in ("a" * 500, "word " * 80, "https://example.com/" + "path/" * 40, ".,;!?" * 60):
        lines = setter.wrap(text, BLACK, 600)
        assert all(setter.width(line, BLACK) <= 600 for line in lines)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_japanese_lines_do_not_begin_with_a_full_stop(fonts: FontBook) -> None:
    text = "吾輩は猫である。名前はまだ無い。「どこで生れたか」とんと見当がつかぬ。"
    setter = Typesetter(fonts, text)
    if fonts.face("吾", bold=False, language="ja") is None:
        pytest.skip("no Japanese font on this machine")
    for width in range(200, 700, 20):
        for line in setter.wrap(text, BLACK, width):
            assert line[0] not in "。、」"
            assert line[-1] != "「"


@settings(max_examples=25)
@given(text=st.text(st.characters(exclude_categories=()), max_size=60))
def test_any_text_is_drawn_or_refused(text: str) -> None:
    book = FontBook(None, [])
    with suppress(CardTooLong, FontMissing):
        picture(draw_card_png(book, text, "", "auto"))


# --- charts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["line", "bar", "pie"])
@pytest.mark.parametrize(
    "values", [[1], [0, 5], [3, 1, 2], [0.001, 0.002], [1e12, 2e12], list(range(1, 13))]
)
def test_every_kind_of_chart_is_drawn(bare: FontBook, kind: str, values: list[float]) -> None:
    labels = [f"label {number}" for number in range(len(values))]
    assert colours(picture(draw_chart_png(bare, kind, labels, values, "A title"))) > 20


@pytest.mark.parametrize("kind", ["line", "bar"])
@pytest.mark.parametrize("values", [[-1, -2], [0, 0], [-5, 5], [1e-9, -1e-9], [7] * 200])
def test_charts_of_negative_zero_tiny_and_equal_values_are_drawn(
    bare: FontBook, kind: str, values: list[float]
) -> None:
    labels = ["a long label for the axis" for _ in values]
    assert picture(draw_chart_png(bare, kind, labels, values, ""))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_a_number_is_refused(bare: FontBook, value: float) -> None:
    with pytest.raises(InvalidChartData, match="expected a number"):
        draw_chart_png(bare, "bar", ["a"], [value], "")


@given(
    st.floats(-1e15, 1e15, allow_nan=False, allow_subnormal=False),
    st.floats(-1e15, 1e15, allow_nan=False, allow_subnormal=False),
)
def test_ticks_span_the_values(one: float, other: float) -> None:
    low, high = sorted((one, other))
    marks = ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high), high - low) + 1e-9
    assert marks[0] <= low + slack
    assert marks[-1] >= high - slack
    assert 2 <= len(marks) <= 12


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234, "1,234"),
        (-5, "-5"),
        (0.25, "0.25"),
        (1_500_000, "1.5M"),
        (2e9, "2B"),
        (3.14159, "3.14"),
        (0.00012, "0.00012"),
    ],
)
def test_axis_numbers_are_written_in_a_readable_form(value: float, text: str) -> None:
    assert format_value(value) == text


# --- font files ---------------------------------------------------------------------------------


def test_the_coverage_of_a_real_font_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.ttf"
    path.write_bytes(ImageFont.load_default(20).font_bytes)
    coverage = read_coverage(path)
    assert "a" in coverage
    assert "你" not in coverage


@given(st.binary(max_size=200))
def test_reading_any_bytes_as_a_font_does_not_fail(tmp_path_factory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.ttf"
    for content in (data, b"\0\1\0\0\0\1" + data, b"ttcf" + data):
        path.write_bytes(content)
        assert isinstance(read_coverage(path), Coverage)


def test_the_coverage_of_a_handmade_table_is_read(tmp_path: Path) -> None:
    groups = struct.pack(">HHIII", 12, 0, 16 + 24, 0, 2) + struct.pack(">6I", 65, 70, 1, 97, 99, 7)
    cmap = struct.pack(">HHHHI", 0, 1, 3, 10, 12) + groups
    head = b"\0\1\0\0" + struct.pack(">H6x", 1) + struct.pack(">4sIII", b"cmap", 0, 28, len(cmap))
    path = tmp_path / "made.ttf"
    path.write_bytes(head + cmap)
    coverage = read_coverage(path)
    assert [c for c in "@AFG`acd" if c in coverage] == ["A", "F", "a", "c"]
