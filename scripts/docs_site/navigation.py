"""Makes the navigation of the site from the tables of docs/README.md, which lists all pages."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from scripts.docs_site.pages import Page, Site

INDEX = "docs/README.md"
_TITLES: Mapping[str, Mapping[str, str]] = {
    "zh": {
        "You run a bot": "运行机器人",
        "You write a plugin": "写插件",
        "You write an adapter": "写适配器",
        "You change nekro-core": "修改 nekro-core",
        "Decisions": "设计决定",
        "Wire logs": "线路记录",
        "All pages": "全部页面",
        "Home": "首页",
    },
    "ja": {
        "You run a bot": "ボットを動かす",
        "You write a plugin": "プラグインを書く",
        "You write an adapter": "アダプターを書く",
        "You change nekro-core": "nekro-core を変える",
        "Decisions": "設計の決定",
        "Wire logs": "通信の記録",
        "All pages": "すべてのページ",
        "Home": "ホーム",
    },
}
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the navigation: a page, or a section with pages."""

    title: str
    place: str = ""
    below: tuple["Entry", ...] = ()


def navigation(site: Site, language: str) -> tuple[Entry, ...]:
    """Return the navigation of a language. It contains each page of the site once. Raises
    `ValueError` if a page is in none of the tables of docs/README.md."""
    text = (site.root / INDEX).read_text("utf-8")
    parts = _SECTION.split(text)[1:]
    seen = {"index.md", "pages.md"}
    sections = [
        Entry(_title(language, title), below=_rows(site, language, rows, seen))
        for title, rows in zip(parts[::2], parts[1::2], strict=True)
    ]
    missing = [page.place for page in site.pages if page.place not in seen]
    if missing:
        raise ValueError(f"{INDEX} has no row for {', '.join(missing)}: add one to its tables")
    home = Entry(_title(language, "Home"), "index.md")
    return home, *sections, Entry(_title(language, "All pages"), "pages.md")


def _rows(site: Site, language: str, text: str, seen: set[str]) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    for title, link in _ROW.findall(text):
        page = _page_of(site, link)
        # A link with "#" leads to a part of a page, and the page has a row of its own.
        if page.place in seen or "#" in link:
            continue
        if page.source.startswith("docs/wire/"):
            entries.append(_folder(site, language, "Wire logs", "docs/wire/", seen))
        elif page.source.startswith("docs/decisions/"):
            entries.append(_folder(site, language, "Decisions", "docs/decisions/", seen))
        else:
            seen.add(page.place)
            entries.append(Entry(_page_title(site, page, language, title), page.place))
    if "architecture.md" in seen:  # The section is that for people who change nekro-core.
        extra = [("Examples", "examples.md"), ("License", "license.md")]
        entries += [Entry(title, place) for title, place in extra if place not in seen]
        seen.update(place for _, place in extra)
    return tuple(entries)


def _folder(site: Site, language: str, title: str, folder: str, seen: set[str]) -> Entry:
    """Return a section with all pages of a folder. The title of a decision is a whole sentence, too
    long for the navigation. So its line has the number and the subject from the name of its
    file."""
    pages = [page for page in site.pages if page.source.startswith(folder)]
    pages.sort(key=lambda page: (not page.place.endswith("index.md"), page.place))
    seen.update(page.place for page in pages)
    below = [Entry(_short(site, page), page.place) for page in pages]
    return Entry(_title(language, title), below=tuple(below))


def _short(site: Site, page: Page) -> str:
    name = PurePosixPath(page.source).stem
    number = re.match(r"(\d{4})-(.+)", name)
    if number:
        return f"{number[1]} {number[2].replace('-', ' ')}"
    return _heading(site, page.source)


def _page_title(site: Site, page: Page, language: str, title: str) -> str:
    return _heading(site, page.translations[language]) if language in page.translations else title


def _heading(site: Site, file: str) -> str:
    first = (site.root / file).read_text("utf-8").split("\n", 1)[0]
    return first.removeprefix("# ").replace("`", "")


def _title(language: str, title: str) -> str:
    return _TITLES.get(language, {}).get(title, title)


def _page_of(site: Site, link: str) -> Page:
    path = link.partition("#")[0]
    source = path.removeprefix("../") if path.startswith("../") else f"docs/{path}"
    found = site.page_of(source)
    if found is None:
        raise ValueError(f"{INDEX} links to {link}, which is no page of the site")
    return found[0]


def nested(entries: Sequence[Entry]) -> list[dict[str, object]]:
    """Return the navigation in the form that the configuration of Zensical needs."""
    return [{each.title: nested(each.below) if each.below else each.place} for each in entries]
