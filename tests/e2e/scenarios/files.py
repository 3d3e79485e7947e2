"""Scenarios with files and pictures that people send or ask for."""

import io

import openpyxl
from PIL import Image

from tests.e2e.scenarios import samples
from tests.e2e.scenarios.scenario import CODE, Subject
from tests.e2e.scenarios.scene import Scene

files = Subject("files")


@files.scenario(5)
async def a_picture_is_looked_at(scene: Scene) -> None:
    async with scene.part(5, could=1):
        await scene.ask(
            "Lin", "What is this, and what do I have to pay in total?", media=[samples.receipt()]
        )
        scene.says("receipt|bill|check|invoice", r"13[.,]80")


@files.scenario(6, modes=CODE)
async def a_table_is_posted(scene: Scene) -> None:
    async with scene.part(6, could=1):
        await scene.ask(
            "Lin",
            "Which city sold the most units? Draw me a chart of the units per city. And one "
            "revenue looks wrong to me: which one?",
            media=[samples.sales()],
        )
        _best_city_and_chart(scene)
        scene.says("Graz", "999[,. ]?999|2026-09-12")


@files.scenario(7)
async def a_pdf_is_posted(scene: Scene) -> None:
    async with scene.part(7, could=1):
        await scene.ask(
            "Lin",
            "What is the rent in this contract, and how long is the notice period?",
            media=[samples.contract()],
        )
        scene.says("845", "ten weeks|10 weeks")


@files.scenario(8)
async def an_archive_of_logs_is_posted(scene: Scene) -> None:
    async with scene.part(8, could=2):
        await scene.ask(
            "Lin",
            "Which of the services has the most ERROR lines, and how many?",
            media=[samples.logs()],
        )
        scene.says("search", r"\b37\b")


@files.scenario(9)
async def an_excel_file_is_wanted(scene: Scene) -> None:
    async with scene.part(9, could=1, tools=2):
        await scene.ask(
            "Lin",
            "Make me an Excel file with the numbers 1 to 20 and their squares, a bold heading "
            "row, and the sum of the squares below.",
        )
        book = openpyxl.load_workbook(io.BytesIO(scene.one("file").data))
        cells = [cell for row in book.worksheets[0].iter_rows() for cell in row]
        values = [cell.value for cell in cells]
        assert 400 in values or any("^2" in str(v) or "*" in str(v) for v in values), values
        assert 2870 in values or any("SUM(" in str(v) for v in values), "there is no sum"
        assert any(cell.font.b for cell in cells if cell.value), "nothing is bold"


@files.scenario(21, modes=CODE)
async def a_house_is_drawn(scene: Scene) -> None:
    async with scene.part(21, could=1):
        await scene.ask("Lin", "Draw me a little house with a red roof, a door and a tree.")
        picture = _picture(scene)
        colours = picture.resize((60, 60)).getcolors(3600)
        assert colours is not None
        assert len(colours) > 3, f"the picture has {len(colours)} colours"
        assert any(r > 130 and g < 110 and b < 110 for _, (r, g, b) in colours), "nothing is red"


@files.scenario(22)
async def a_picture_is_changed(scene: Scene) -> None:
    async with scene.part(22, could=1, tools=2):
        await scene.ask(
            "Lin",
            "Make this black and white and turn it 90 degrees clockwise, please.",
            media=[samples.arrow()],
        )
        picture = _picture(scene)
        assert picture.width * 16 == picture.height * 9, f"its size is {picture.size}"
        small = picture.resize((90, 160))
        for x in range(0, 90, 10):
            for y in range(0, 160, 10):
                r, g, b = _pixel(small, x, y)
                assert max(r, g, b) - min(r, g, b) < 12, f"({x}, {y}) has a colour"
        assert sum(_pixel(small, 83, 6)) < 60, "the black square is not at the top right"


@files.scenario(23, modes=CODE)
async def two_curves_in_one_diagram(scene: Scene) -> None:
    async with scene.part(23, could=1):
        await scene.ask("Lin", "Plot sin(x) and cos(x) from 0 to 2π in one diagram.")
        colours = _picture(scene).getcolors(2_000_000)
        assert colours is not None
        vivid = {
            tuple(part // 64 for part in colour)
            for count, colour in colours
            if count > 100 and max(colour) - min(colour) > 90
        }
        assert len(vivid) >= 2, f"two curves were expected: {vivid}"


@files.scenario(24)
async def six_pictures_in_a_message(scene: Scene) -> None:
    async with scene.part(24, could=1, tools=2):
        await scene.ask(
            "Lin",
            "Which colours do these six pictures have, one after the other?",
            media=[samples.coloured(name) for name in samples.COLOURS],
        )
        scene.says(*samples.COLOURS)
        assert "[note] You do not see these pictures" in scene.prompt(0)


@files.scenario(54)
async def a_file_of_this_morning(scene: Scene) -> None:
    async with scene.part(54, could=1, tools=2):
        await scene.ask(
            "Lin", "Here are our numbers of the autumn.", to_bot=False, media=[samples.sales()]
        )
        for number in range(45):
            await scene.say(("Bob", "Anna", "Mei")[number % 3], _SMALL_TALK[number], to_bot=False)
        await scene.settled()
        await scene.ask(
            "Lin", "In the csv that I posted this morning: how many units did Lyon sell?"
        )
        scene.says(rf"\b{samples.sold('Lyon')}\b")


def _best_city_and_chart(scene: Scene) -> None:
    scene.says("Porto")
    assert scene.media("picture"), "no chart was sent"


def _picture(scene: Scene) -> Image.Image:
    return Image.open(io.BytesIO(scene.one("picture").data)).convert("RGB")


def _pixel(picture: Image.Image, x: int, y: int) -> tuple[int, int, int]:
    pixel = picture.getpixel((x, y))
    assert isinstance(pixel, tuple)
    return pixel[0], pixel[1], pixel[2]


_THINGS = (
    "the printer",
    "the new door",
    "our lunch",
    "the bus",
    "the parking",
    "the coffee machine",
)
_SMALL_TALK = [
    f"{opening} {_THINGS[number % 6]} {end}"
    for number, (opening, end) in enumerate(
        (
            ("By the way,", "is fine again."),
            ("I still have to see to", "before Friday."),
            ("Somebody complained about", "again, what do you think?"),
            ("Good news:", "was much cheaper than we thought."),
            ("Has anybody looked at", "since Monday?"),
        )
        * 9
    )
]
