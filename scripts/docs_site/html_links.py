"""Checks the links of a folder with HTML pages: each file and each heading to which a link leads
must exist."""

import os
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """Collects the links of a page, and the names to which links can lead (of headings, for
    example)."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(
        self,
        tag: str,  # noqa: ARG002
        attrs: list[tuple[str, str | None]],
    ) -> None:
        given = dict(attrs)
        self.names.update(value for name in ("id", "name") if (value := given.get(name)))
        self.links += [value for name in ("href", "src") if (value := given.get(name))]


def broken_links(folder: Path) -> list[str]:
    """Return a sentence for each link that leads nowhere, of all pages below ``folder``. Links to
    other hosts are not followed."""
    pages = {path: _read(path) for path in sorted(folder.rglob("*.html"))}
    found: list[str] = []
    for path, page in pages.items():
        if path.name == "404.html":  # It is served at any address, so its links begin with a slash.
            continue
        for link in dict.fromkeys(page.links):
            why = _fault(folder, path, link, pages)
            found += [f"{path.relative_to(folder)}: {link}: {why}"] if why else []
    return found


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text("utf-8"))
    return page


def _fault(folder: Path, path: Path, link: str, pages: dict[Path, _Page]) -> str:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    if parts.path.startswith("/"):
        return "it begins at the root of the host, but the site may lie in a folder"
    target = path
    if parts.path:
        target = Path(os.path.normpath(path.parent / unquote(parts.path)))
        if target.is_dir() or parts.path.endswith("/"):
            target /= "index.html"
    if not target.is_file() or not target.is_relative_to(folder):
        return "there is no such page"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names:
        return "there is no such heading"
    return ""
