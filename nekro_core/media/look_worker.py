"""A program that describes in a few lines what is in one file. Only `nekro_core.media.file_look`
runs it.

The file is untrusted. All libraries are loaded before the process is confined, because a confined
process cannot load modules.
"""

import csv
import importlib
import io
import zipfile
from collections.abc import Callable, Iterable
from typing import Any

from nekro_core.media.child import Answer, load_packages, serve_once
from nekro_core.media.errors import UnusableMedia

SHOWN = 500
"""Maximum number of characters of a document's text that are shown."""
_CELL, _CELLS, _ROWS = 40, 12, 3
"""Maximum number of characters of a cell, of cells of a row, and of rows that are shown."""
_NAMES = 12
"""Maximum number of sheets, or of names in an archive, that are shown."""
_LINES = 200_000
"""Maximum number of lines that are counted."""
_UNPACKED = 200 * 1024 * 1024
"""Maximum total size in bytes of the unpacked parts of an office document. A decompression bomb has
more."""
_PARTS = 10_000
_PAGES = 3
"""Maximum number of pages of a PDF whose text is read. The first page alone is not enough, because
it may be only a picture."""
_ENCODINGS = ("utf-8-sig", "utf-16", "gb18030", "shift_jis")
_DELIMITERS = ",;\t|"


def prepare(request: dict[str, Any]) -> Callable[[bytes], Answer]:
    """Load the libraries for a kind of file, and return the function that describes such files."""
    kind, name = request["kind"], request["name"]
    load_packages("encodings")
    if kind == "pdf":
        load_packages("pypdf")
        return lambda data: _answer(_look_into_pdf(importlib.import_module("pypdf"), data))
    if kind == "xlsx":
        load_packages("lxml", "openpyxl")
        return lambda data: _answer(_look_into_xlsx(importlib.import_module("openpyxl"), data))
    if kind == "docx":
        load_packages("lxml", "docx")
        return lambda data: _answer(_look_into_docx(importlib.import_module("docx"), data))
    if kind == "zip":
        return lambda data: _answer(_look_into_zip(data))
    return lambda data: _answer(_look_into_text(data, name))


def _answer(lines: Iterable[str]) -> Answer:
    return {"lines": [*lines]}, b""


def _look_into_text(data: bytes, name: str) -> list[str]:
    encoding, text = _decoded(data)
    lines = text.splitlines()[:_LINES]
    count = f"{_LINES} lines or more" if len(lines) == _LINES else f"{len(lines)} lines"
    delimiter = _delimiter(lines, name)
    if delimiter:
        rows = [*csv.reader(lines[: _ROWS + 1], delimiter=delimiter)]
        header, *first = rows
        columns = f"{len(header)} columns: {_row(header)}"
        return [
            f"a table of {count} in {encoding}, {columns}",
            "first rows: " + " | ".join(map(_row, first)),
        ]
    return [f"text of {count} in {encoding}", f"begins: {_cut(text)}"]


def _decoded(data: bytes) -> tuple[str, str]:
    for encoding in _ENCODINGS:
        if encoding == "utf-16" and data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            continue
        try:
            return encoding.removesuffix("-sig"), data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return "latin-1", data.decode("latin-1")


def _delimiter(lines: list[str], name: str) -> str:
    """Return the character that separates the columns of a table; empty if the text is not a
    table."""
    head = [line for line in lines[:5] if line.strip()]
    if not head:
        return ""
    counts = {each: [line.count(each) for line in head] for each in _DELIMITERS}
    best = max(_DELIMITERS, key=lambda each: min(counts[each]))
    says_so = name.lower().endswith((".csv", ".tsv"))
    if says_so:
        return best if max(counts[best]) else ","
    even = len(head) > 2 and min(counts[best]) >= 2 and len(set(counts[best])) == 1
    return best if even else ""


def _look_into_pdf(pypdf: Any, data: bytes) -> list[str]:
    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        return ["a PDF that is encrypted: it cannot be read without its password"]
    pages = len(reader.pages)
    text = ""
    for page in range(min(pages, _PAGES)):
        text += reader.pages[page].extract_text() + "\n"
        if len(text) > SHOWN:
            break
    if not text.strip():
        return [f"a PDF of {pages} pages", "no text on the first pages: perhaps they are scans"]
    return [f"a PDF of {pages} pages", f"begins: {_cut(text)}"]


def _look_into_xlsx(openpyxl: Any, data: bytes) -> list[str]:
    _check_parts(data)
    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    sheets = [
        f"{_cell(each.title)} ({each.max_row or '?'} rows, {each.max_column or '?'} columns)"
        for each in book.worksheets[:_NAMES]
    ]
    more = len(book.worksheets) - len(sheets)
    about = f"a workbook of {len(book.worksheets)} sheets: {', '.join(sheets)}"
    about += f" and {more} more" if more > 0 else ""
    if not book.worksheets:
        return [about]
    rows = book.worksheets[0].iter_rows(max_row=_ROWS + 1, max_col=_CELLS, values_only=True)
    return [about, "first rows: " + " | ".join(_row(row) for row in rows)]


def _look_into_docx(docx: Any, data: bytes) -> list[str]:
    archive = _check_parts(data)
    document = docx.Document(io.BytesIO(data))
    pages = ""
    if "docProps/app.xml" in archive.namelist():
        properties = archive.read("docProps/app.xml").decode("utf-8", "replace")
        number = properties.partition("<Pages>")[2].partition("</Pages>")[0]
        pages = f" of {number} pages" if number.isdecimal() and len(number) < 6 else ""
    words, length = [], 0
    for paragraph in document.paragraphs:
        words.append(paragraph.text)
        length += len(words[-1])
        if length > SHOWN:
            break
    about = f"a Word document{pages}, {len(document.paragraphs)} paragraphs"
    about += f", {len(document.tables)} tables" if document.tables else ""
    return [about, f"begins: {_cut(' '.join(words))}"]


def _look_into_zip(data: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = [each for each in archive.infolist() if not each.is_dir()]
    total = sum(each.file_size for each in files)
    locked = " (encrypted)" if any(each.flag_bits & 1 for each in files) else ""
    names = [f"{_cell(each.filename, 80)} ({each.file_size} bytes)" for each in files[:_NAMES]]
    more = f" and {len(files) - _NAMES} more" if len(files) > _NAMES else ""
    return [
        f"an archive{locked} of {len(files)} files, {total} bytes unpacked",
        f"files: {', '.join(names)}{more}",
    ]


def _check_parts(data: bytes) -> zipfile.ZipFile:
    """Open an office document, and refuse it if its parts are too many or too large."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    parts = archive.infolist()
    if len(parts) > _PARTS or sum(each.file_size for each in parts) > _UNPACKED:
        raise UnusableMedia("it unpacks to more than one file may: it may be made to do harm")
    return archive


def _row(cells: Iterable[object]) -> str:
    shown = [_cell("" if each is None else each) for each in cells]
    more = f"; and {len(shown) - _CELLS} more" if len(shown) > _CELLS else ""
    return "; ".join(shown[:_CELLS]) + more


def _cell(value: object, most: int = _CELL) -> str:
    text = " ".join(str(value)[: 4 * most].split())
    return text if len(text) <= most else f"{text[:most]}…"


def _cut(text: str) -> str:
    shown = " ".join(text[: 4 * SHOWN].split())
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"


def _guarded(request: dict[str, Any]) -> Callable[[bytes], Answer]:
    look = prepare(request)

    def guarded(data: bytes) -> Answer:
        try:
            return look(data)
        except (UnusableMedia, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 (the libraries raise nearly anything on hostile bytes)
            raise UnusableMedia(f"it is damaged: {type(error).__name__}") from None

    return guarded


if __name__ == "__main__":
    serve_once(_guarded)
