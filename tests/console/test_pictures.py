"""The documents have a picture of each page of the console. ``make pictures`` makes the
pictures."""

from pathlib import Path

import pytest
from PIL import Image

from nekro_core.console.pages import PAGES
from tests.console.pictures.__main__ import FOLDER, WIDE, changed_part, pictures, save
from tests.console.test_browser_pages import NARROW

DOCS = Path(__file__).parents[2] / "docs"
MOST_BYTES, MOST_BYTES_IN_ALL = 150_000, 2_500_000
ONE_OF_MANY = {"chats": "chat", "turns": "turn", "plugins": "plugin"}
"""Maps the picture of a list to the picture of the page of one thing in the list. The navigation
does not contain the pages of single things."""


def test_every_page_has_its_picture() -> None:
    taken = {each.name for each in pictures(turn_id=1)}
    for page in PAGES:
        if page.of_cluster:  # The bot of the pictures is one process.
            continue
        name = page.name or "home"
        assert (name if page.group else ONE_OF_MANY[name]) in taken


def test_every_picture_is_there_and_none_is_left_over() -> None:
    taken = {f"{each.name}.png" for each in pictures(turn_id=1)}
    assert {each.name for each in FOLDER.iterdir()} == taken


def test_every_picture_is_in_the_guide_in_each_language() -> None:
    for guide in ("operating.md", "operating.zh.md", "operating.ja.md"):
        text = (DOCS / guide).read_text("utf-8")
        missing = [each.name for each in FOLDER.iterdir() if f"({_path(each)})" not in text]
        assert missing == [], guide


def _path(picture: Path) -> str:
    return str(picture.relative_to(DOCS))


def test_pictures_are_small_and_of_the_size_of_their_window() -> None:
    sizes = [each.stat().st_size for each in FOLDER.iterdir()]
    assert max(sizes) <= MOST_BYTES
    assert sum(sizes) <= MOST_BYTES_IN_ALL
    for each in FOLDER.iterdir():
        with Image.open(each) as picture:
            assert picture.size in {WIDE, NARROW}, each.name


def test_a_picture_in_which_only_a_time_differs_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "page.png"
    page = Image.new("RGB", (400, 200), "white")
    with_time, other = page.copy(), page.copy()
    with_time.paste("black", (10, 10, 60, 18))
    other.paste("black", (0, 0, 400, 60))
    assert save(path, _png(page, tmp_path)).startswith("written")
    before = path.read_bytes()
    assert save(path, _png(with_time, tmp_path)) == "unchanged"
    assert path.read_bytes() == before
    assert save(path, _png(other, tmp_path)).startswith("written")
    assert changed_part(page, other) == pytest.approx(0.3)


def _png(picture: Image.Image, folder: Path) -> bytes:
    picture.save(folder / "new.png")
    return (folder / "new.png").read_bytes()
