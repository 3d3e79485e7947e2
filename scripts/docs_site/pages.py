"""Prepares the pages of the documentation for the site: one folder of Markdown for each language.

If a page has no translation, the English page is put into the folder of the language, with a
sentence that says so. The links of the pages lead to files of the repository. They are changed so
that they lead to pages of the site. See docs/decisions/0051-upgrades-exports-site.md.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

LANGUAGES: Mapping[str, str] = {"en": "English", "zh": "简体中文", "ja": "日本語"}
"""The languages of the site, each with its own name, under which pages link to their
translation."""
SUFFIXES: Mapping[str, str] = {"en": "", "zh": ".zh", "ja": ".ja"}
ONLY_ENGLISH: Mapping[str, str] = {"zh": "本页只有英文。", "ja": "このページは英語だけです。"}
_NAMES = {"English": "en", "简体中文": "zh", "中文": "zh", "日本語": "ja"}

OUTSIDE_DOCS: Mapping[str, str] = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "license.md",
    "examples/README.md": "examples.md",
}
"""The pages whose files are not below ``docs``, each with its place on the site."""
RENAMED: Mapping[str, str] = {
    "docs/README.md": "pages.md",
    "docs/decisions/README.md": "decisions/index.md",
}
"""The pages below ``docs`` whose place on the site is not their path in ``docs``."""

_FENCED = re.compile(r"^( *)```.*?^\1```[^\n]*$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_LINK = re.compile(r"(?P<text>\[[^\[\]\n]*)?\]\((?P<target>[^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_LIST_OR_TABLE = re.compile(r"(?:[-*] |\d+\. |\|)")


class BrokenLink(Exception):
    """A page links to something that the repository or the site does not have."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the site.

    Attributes:
        source: The English file, relative to the root of the repository.
        place: The path of the page's file in the folder of Markdown of each language.
        translations: The files of the other languages, by language.
    """

    source: str
    place: str
    translations: Mapping[str, str]

    def file_in(self, language: str) -> str:
        """Return the file with the text for a language: the English file if there is no
        translation."""
        return self.translations.get(language, self.source)

    @property
    def address(self) -> str:
        """The address of the page below the root of its language, with a slash at its end."""
        place = PurePosixPath(self.place)
        folder = place.parent if place.name == "index.md" else place.with_suffix("")
        return "" if folder == PurePosixPath() else f"{folder}/"


@dataclass(frozen=True)
class Site:
    """All pages of the site. Finds the page of a file of the repository, and writes the pages."""

    root: Path
    pages: tuple[Page, ...]

    @classmethod
    def read(cls, root: Path) -> "Site":
        """Find the pages of a repository."""
        return cls(root, tuple(_pages(root)))

    def page_of(self, source: str) -> tuple[Page, str] | None:
        """Return the page of a file, and the language of the file. A folder stands for its first
        page."""
        if (self.root / source).is_dir():
            return next(
                ((page, "en") for page in self.pages if page.source.startswith(f"{source}/")), None
            )
        for page in self.pages:
            if source == page.source:
                return page, "en"
            for language, file in page.translations.items():
                if source == file:
                    return page, language
        return None

    def write(self, language: str, folder: Path) -> None:
        """Write into ``folder`` the pages of a language, the pictures, and the files that readers
        can download. Raises `BrokenLink`."""
        for page in self.pages:
            file = page.file_in(language)
            text = (self.root / file).read_text("utf-8")
            if page.source == "LICENSE":
                text = f"# License\n\n```text\n{text.rstrip()}\n```\n"
            else:
                text = for_python_markdown(self.with_links_of_site(text, page, file, language))
            if language != "en" and file == page.source:
                text = _with_note(text, ONLY_ENGLISH[language])
            target = folder / page.place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        shutil.copytree(self.root / "docs/images", folder / "images", dirs_exist_ok=True)
        for file_to_load in (self.root / "docs").glob("*.json"):
            shutil.copy(file_to_load, folder)

    def with_links_of_site(self, text: str, page: Page, file: str, language: str) -> str:
        """Change the links of a page from those of the repository to those of the site."""

        def replaced(link: re.Match[str]) -> str:
            said = link["text"] or ""
            target = self._target(link["target"], said.removeprefix("["), page, file, language)
            return f"{said}]({target})"

        return _outside_code(text, lambda prose: _LINK.sub(replaced, prose))

    def _target(self, target: str, said: str, page: Page, file: str, language: str) -> str:
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return target
        source = os.path.normpath(PurePosixPath(file).parent / path)
        hash_anchor = f"#{anchor}" if anchor else ""
        if source.startswith("docs/") and (source.endswith(".json") or "/images/" in source):
            if not (self.root / source).is_file():
                raise BrokenLink(f"{file}: there is no {source}")
            return _relative(source.removeprefix("docs/"), page.place)
        found = self.page_of(source)
        if found is None:
            raise BrokenLink(f"{file}: {target} is no page of the site")
        other, its_language = found
        if its_language == "en" and said not in _NAMES:
            its_language = language
        if anchor:
            hash_anchor = f"#{self._anchor(anchor, source, other.file_in(its_language))}"
        if its_language == language:
            return _relative(other.place, page.place) + hash_anchor
        # A page of another language is in another part of the site, which is built on its own. So
        # the link has the address of that page and not the path of its file. Zensical reads the
        # address relative to the folder of the file that contains the link.
        return _up(page.place, language) + _below_root(other, its_language) + hash_anchor

    def _anchor(self, anchor: str, linked: str, shown: str) -> str:
        """Return the name that the heading ``anchor`` of the file ``linked`` has in the file
        ``shown``, which may be a translation of ``linked``. Translations have the same headings in
        the same order."""
        if linked == shown or not (self.root / linked).is_file():
            return anchor
        names, other = heading_names(self.root / linked), heading_names(self.root / shown)
        if anchor not in names or len(names) != len(other):
            raise BrokenLink(f"{linked}#{anchor}: {shown} has no such heading")
        return other[names.index(anchor)]


@cache
def heading_names(file: Path) -> tuple[str, ...]:
    """Return the names of a file's headings, as GitHub makes them for links."""
    names: list[str] = []
    for heading in _HEADING.findall(_FENCED.sub("", file.read_text("utf-8"))):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        same = sum(
            each == name or re.fullmatch(rf"{re.escape(name)}-\d+", each) is not None
            for each in names
        )
        names.append(f"{name}-{same}" if same else name)
    return tuple(names)


def for_python_markdown(text: str) -> str:
    """Change a text so that Python-Markdown reads it in the same way as GitHub. Unlike GitHub,
    Python-Markdown needs an empty line before a list or a table, and four spaces before a block of
    code in a list."""
    pieces: list[str] = []
    end = 0
    for block in _FENCED.finditer(text):
        pieces.append(_with_empty_lines(text[end : block.start()]))
        pieces.append(
            re.sub(f"^{block[1]}", "    ", block[0], flags=re.MULTILINE) if block[1] else block[0]
        )
        end = block.end()
    pieces.append(_with_empty_lines(text[end:]))
    return "".join(pieces)


def _with_empty_lines(text: str) -> str:
    lines: list[str] = []
    for line in text.split("\n"):
        starts = _LIST_OR_TABLE.match(line)
        if starts and lines and lines[-1] and not lines[-1].startswith((" ", "#", "|")):
            before = _LIST_OR_TABLE.match(lines[-1])
            if before is None or (before[0] == "|") != (starts[0] == "|"):
                lines.append("")
        lines.append(line)
    return "\n".join(lines)


def _pages(root: Path) -> Iterator[Page]:
    for source, place in OUTSIDE_DOCS.items():
        yield _page(root, source, place)
    for path in sorted((root / "docs").rglob("*.md")):
        source = path.relative_to(root).as_posix()
        if not source.endswith((".zh.md", ".ja.md")):
            yield _page(root, source, RENAMED.get(source, source.removeprefix("docs/")))


def _page(root: Path, source: str, place: str) -> Page:
    files = {
        language: source.removesuffix(".md") + f"{suffix}.md"
        for language, suffix in SUFFIXES.items()
        if suffix
    }
    there = {language: file for language, file in files.items() if (root / file).is_file()}
    return Page(source, place, there)


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return a text with ``change`` applied to all parts that are not code."""
    pieces: list[str] = []
    end = 0
    for block in _FENCED.finditer(text):
        pieces += [_outside_spans(text[end : block.start()], change), block[0]]
        end = block.end()
    return "".join([*pieces, _outside_spans(text[end:], change)])


def _outside_spans(text: str, change: Callable[[str], str]) -> str:
    pieces: list[str] = []
    end = 0
    for span in _CODE.finditer(text):
        pieces += [change(text[end : span.start()]), span[0]]
        end = span.end()
    return "".join([*pieces, change(text[end:])])


def _with_note(text: str, note: str) -> str:
    title, _, rest = text.partition("\n")
    return f'{title}\n\n!!! note ""\n\n    {note}\n{rest}'


def _relative(place: str, start: str) -> str:
    return os.path.relpath(place, PurePosixPath(start).parent).replace(os.sep, "/")


def _up(place: str, language: str) -> str:
    """Return the relative path from the folder of a page's file to the root of the site."""
    return "../" * (place.count("/") + (language != "en")) or "./"


def _below_root(page: Page, language: str) -> str:
    return page.address if language == "en" else f"{language}/{page.address}"
