"""The pages of the documentation are prepared for the site without a broken link.

These tests do not need Zensical, the program that makes HTML of the prepared pages. `make docs`
starts it, and checks the links of the finished site again.
"""

import os
import re
import tomllib
from pathlib import Path, PurePosixPath

import pytest

from scripts.docs_site.build import as_toml, configuration
from scripts.docs_site.html_links import broken_links
from scripts.docs_site.navigation import Entry, navigation
from scripts.docs_site.pages import (
    LANGUAGES,
    ONLY_ENGLISH,
    BrokenLink,
    Site,
    for_python_markdown,
)
from tests.house.test_documents import anchors, links

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site() -> Site:
    return Site.read(ROOT)


@pytest.fixture(scope="module")
def staged(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pages of each language, as Zensical gets them."""
    folder = tmp_path_factory.mktemp("staged")
    for language in LANGUAGES:
        site.write(language, folder / language)
    return folder


def places(entries: tuple[Entry, ...]) -> list[str]:
    found: list[str] = []
    for each in entries:
        found += [each.place] if each.place else places(each.below)
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_page_is_in_the_navigation_once(site: Site, language: str) -> None:
    shown = places(navigation(site, language))
    assert sorted(shown) == sorted(page.place for page in site.pages)


@pytest.mark.parametrize("language", LANGUAGES)
def test_links_between_pages_of_a_language_have_a_target(staged: Path, language: str) -> None:
    folder = staged / language
    pages = sorted(folder.rglob("*.md"))
    assert len(pages) > 80
    names = {page: anchors(page) for page in pages}
    for page in pages:
        for link in links(page):
            path, _, anchor = link.partition("#")
            if path.endswith("/"):  # a link to a page of another language
                continue
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), f"{page.relative_to(staged)} links to {link}"
            assert not anchor or anchor in names[target], f"{page.relative_to(staged)}: {link}"


def test_links_to_other_languages_lead_to_the_same_page_there(site: Site, staged: Path) -> None:
    addresses = {page.address for page in site.pages}
    checked = 0
    for language in LANGUAGES:
        for page in site.pages:
            here = PurePosixPath("" if language == "en" else language, page.place).parent
            for link in links(staged / language / page.place):
                path = link.partition("#")[0]
                if not path.endswith("/"):
                    continue
                there = os.path.normpath(f"/{here}/{path}").strip("/")
                other, _, rest = there.partition("/")
                address = (rest if other in LANGUAGES else there).strip("/")
                assert (f"{address}/" if address else "") in addresses, f"{here}: {link}"
                checked += 1
    assert checked > 50


@pytest.mark.parametrize("language", ["zh", "ja"])
def test_a_page_without_translation_is_there_in_english_and_says_so(
    staged: Path, language: str
) -> None:
    note = ONLY_ENGLISH[language]
    title, _, rest = (staged / language / "memory.md").read_text("utf-8").partition("\n")
    assert title.startswith("# Memory")
    assert note in rest
    for translated in ("index.md", "operating.md"):
        assert note not in (staged / language / translated).read_text("utf-8")


def test_links_of_a_translated_page_stay_in_its_language_unless_their_text_names_a_language(
    site: Site,
) -> None:
    page, _ = site.page_of("docs/operating.md") or pytest.fail("the page is missing")
    changed = site.with_links_of_site(
        "[English](operating.md) [reference](operating-reference.md#x) [a](accounts.zh.md) "
        "`[kept](memory.md)` ![p](images/chat.png) [s](../README.zh.md)",
        page,
        "docs/operating.zh.md",
        "zh",
    )
    assert changed == (
        "[English](../operating/) [reference](operating-reference.md#x) [a](accounts.md) "
        "`[kept](memory.md)` ![p](images/chat.png) [s](index.md)"
    )


@pytest.mark.parametrize(
    "text", ["[a](gone.md)", "[a](../nekro_core/)", "![a](images/gone.png)"], ids=str
)
def test_a_link_without_a_target_ends_the_build(site: Site, text: str) -> None:
    page, file = site.pages[-1], "docs/memory.md"
    with pytest.raises(BrokenLink, match=r"docs/memory\.md"):
        site.with_links_of_site(text, page, file, "en")


def test_lists_and_tables_get_the_empty_line_that_python_markdown_needs() -> None:
    given = (
        "words\n- one\n- two\n  more\n- three\n\n<!-- x -->\n| a |\n|---|\n\n- b\n\n"
        "  ```sh\n  c\n  ```\n"
    )
    wanted = (
        "words\n\n- one\n- two\n  more\n- three\n\n<!-- x -->\n\n| a |\n|---|\n\n- b\n\n"
        "    ```sh\n    c\n    ```\n"
    )
    assert for_python_markdown(given) == wanted


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_configuration_that_is_written_as_toml_is_read_back_unchanged(
    site: Site, language: str
) -> None:
    wanted = configuration(site, language)
    assert tomllib.loads(f"project = {as_toml(wanted)}")["project"] == wanted


def test_broken_links_of_the_finished_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "zh").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top">a</h1><a href="zh/#here"></a><a href="#gone"></a><a href="no.html"></a>'
        '<a href="/zh/"></a><a href="https://example.test/x"></a>'
    )
    (tmp_path / "zh/index.html").write_text('<p id="here"><a href="..">a</a></p>')
    assert [re.sub(r"^index.html: ", "", each) for each in broken_links(tmp_path)] == [
        "#gone: there is no such heading",
        "no.html: there is no such page",
        "/zh/: it begins at the root of the host, but the site may lie in a folder",
    ]
