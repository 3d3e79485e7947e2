"""A guide has the same code in its three languages, so one test of the code is enough."""

import json
import re
import tomllib
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = sorted(page.name.removesuffix(".zh.md") for page in DOCS.glob("*.zh.md"))
LANGUAGES = {"": "English", ".zh": "简体中文", ".ja": "日本語"}
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([\w./-]+\.(?:md|py))(?:#[^)]*)?\)")


def page(guide: str, language: str) -> str:
    return (DOCS / f"{guide}{language}.md").read_text("utf-8")


def programs(text: str) -> list[tuple[str, str]]:
    """The code blocks of a page. The text of a TOML block is left out, because its strings and
    comments may be in the page's language."""
    blocks = _BLOCK.findall(text)
    return [(kind, "" if kind == "toml" else block) for kind, block in blocks]


def outline(text: str) -> list[str]:
    """The level of each heading, and the numbers of table rows and list items below it."""
    prose = _BLOCK.sub("", text)
    sections = re.split(r"^(#+) .*$", prose, flags=re.MULTILINE)
    counts = [
        f"{len(re.findall('^[|]', part, re.MULTILINE))} rows, "
        f"{len(re.findall('^- ', part, re.MULTILINE))} points"
        for part in sections[2::2]
    ]
    return [f"{level} {count}" for level, count in zip(sections[1::2], counts, strict=True)]


@pytest.mark.parametrize("language", [".zh", ".ja"])
@pytest.mark.parametrize("guide", GUIDES)
def test_a_translated_guide_has_the_same_code_and_outline_as_the_english_guide(
    guide: str, language: str
) -> None:
    english, other = page(guide, ""), page(guide, language)
    assert programs(other) == programs(english) != []
    assert outline(other) == outline(english)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("guide", GUIDES)
def test_each_page_links_its_translations_and_its_links_exist(guide: str, language: str) -> None:
    text = page(guide, language)
    names = [
        f"**{name}**" if each == language else f"[{name}]({guide}{each}.md)"
        for each, name in LANGUAGES.items()
    ]
    assert text.splitlines()[2] == " · ".join(names)
    for link in _LINK.findall(text):
        assert (DOCS / link).exists(), link


@pytest.mark.parametrize("guide", GUIDES)
def test_configurations_can_be_read(guide: str) -> None:
    for kind, text in _BLOCK.findall(page(guide, "")):
        match kind:
            case "json":
                json.loads(text)
            case "toml":
                tomllib.loads(text)
            case "sh":
                for value in re.findall(r"^NEKRO_\w+=([\[{].*)$", text, re.MULTILINE):
                    json.loads(value)
