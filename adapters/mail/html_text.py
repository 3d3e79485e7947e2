"""Extracts the visible text of an HTML mail."""

import re
from collections import Counter
from html.parser import HTMLParser

from nekro_core.api.chat import sound_html

_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "br", "div", "dl", "dt", "dd", "fieldset",
    "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "ol", "p",
    "pre", "section", "table", "tr", "ul",
})  # fmt: skip
_SILENT = frozenset({"head", "style", "script", "title", "template", "noscript", "svg", "object"})
_VOID = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
})  # fmt: skip
_HIDDEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?![.\d]*[1-9])"
    r"|mso-hide\s*:\s*all|max-height\s*:\s*0",
    re.IGNORECASE,
)
DEPTH = 1000
"""Elements nested deeper than this are not tracked: their text is taken even if it is hidden."""


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._open: list[tuple[str, bool]] = []
        self._there: Counter[str] = Counter()
        self._hidden = 0
        self._link: list[tuple[str, int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in _BLOCKS:
            self.parts.append("\n")
        if tag == "li":
            self.parts.append("- ")
        if tag == "img" and not self._hidden and values.get("alt"):
            self.parts.append(f"[{values['alt']}]")
        if tag in _VOID or len(self._open) >= DEPTH:
            return
        # The sender does not see hidden text, so hidden text is not part of their request.
        hidden = (
            tag in _SILENT or "hidden" in values or bool(_HIDDEN.search(values.get("style") or ""))
        )
        self._open.append((tag, hidden))
        self._there[tag] += 1
        self._hidden += hidden
        if tag == "a":
            self._link.append((values.get("href") or "", len(self.parts)))

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._link:
            address, start = self._link.pop()
            words = "".join(self.parts[start:]).strip()
            if address.startswith(("http://", "https://")) and address.rstrip("/") != words:
                self.parts.append(f" ({address})" if not self._hidden else "")
        if self._there[tag]:
            while self._open:
                name, hidden = self._open.pop()
                self._there[name] -= 1
                self._hidden -= hidden
                if name == tag:
                    break
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(re.sub(r"\s+", " ", data))


def words_of(html: str) -> str:
    """Return the visible text. Never raises; broken HTML is read as far as possible."""
    parser = _Words()
    parser.feed(sound_html(html))
    parser.close()
    lines = [line.strip() for line in "".join(parser.parts).splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
