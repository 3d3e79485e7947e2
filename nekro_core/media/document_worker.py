"""A program that reads the text of one document. Only `nekro_core.media.documents` runs it.

PDF is read with pypdf, page by page; Word documents with python-docx, along their headings; tables
with openpyxl, sheet by sheet. All modules are loaded before the process is confined, because a
confined process cannot open files. The length of the text is limited while it is read.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

from nekro_core.media.child import Answer, load_packages, serve_once
from nekro_core.media.errors import UnusableMedia

_UNPACKED = 256 * 1024 * 1024
"""Maximum total size in bytes of the unpacked parts of a Word document or table."""
_PACKED_PARTS = 10_000
_CELLS_IN_ROW = 200
_Sections = Iterator[dict[str, Any]]


_CUT: dict[str, Any] = {"heading": "", "page": 0, "text": ""}
"""An empty section, which says that the rest of the document is not read."""


def _pdf(data: bytes, most: dict[str, int]) -> _Sections:
    from pypdf import PdfReader  # noqa: PLC0415 (each document needs one library)
    from pypdf.errors import PyPdfError  # noqa: PLC0415

    try:
        reader = PdfReader(io.BytesIO(data))
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = 0 if locked else len(reader.pages)
    except (PyPdfError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnusableMedia(f"it is no PDF that can be read ({type(error).__name__})") from None
    if locked:
        raise UnusableMedia("it is encrypted: save it without a password")
    found = 0
    for number in range(min(pages, most["pages"])):
        try:
            text = reader.pages[number].extract_text()
        except Exception:  # noqa: BLE001, S112 - a damaged page may raise any error
            continue
        found += len(text.strip())
        yield {"heading": "", "page": number + 1, "text": text}
    if not found:
        raise UnusableMedia(
            f"its {pages} pages have no text: it is a scan. Use a file with recognized text"
        )
    if pages > most["pages"]:
        yield _CUT


def _docx(data: bytes, _most: dict[str, int]) -> _Sections:
    from docx import Document  # noqa: PLC0415
    from docx.table import Table  # noqa: PLC0415

    _check_packed(data)
    try:
        document = Document(io.BytesIO(data))
        heading, lines = "", list[str]()
        for part in document.iter_inner_content():
            if isinstance(part, Table):
                lines += ("\t".join(cell.text for cell in row.cells) for row in part.rows)
                continue
            style = part.style.name if part.style is not None else None
            if (style or "").startswith(("Heading", "Title")) and part.text.strip():
                if lines:
                    yield {"heading": heading, "page": 0, "text": "\n".join(lines)}
                heading, lines = part.text.strip(), []
            else:
                lines.append(part.text)
        yield {"heading": heading, "page": 0, "text": "\n".join(lines)}
    except (ValueError, KeyError, AttributeError, SyntaxError, zipfile.BadZipFile) as error:
        name = type(error).__name__
        raise UnusableMedia(f"it is no Word document that can be read ({name})") from None


def _xlsx(data: bytes, most: dict[str, int]) -> _Sections:
    from openpyxl import load_workbook  # noqa: PLC0415

    _check_packed(data)
    try:
        book = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        left, cut = most["cells"], False
        for sheet in book.worksheets:
            lines: list[str] = []
            for row in sheet.iter_rows(values_only=True, max_col=_CELLS_IN_ROW + 1):
                cells = ["" if cell is None else str(cell) for cell in row[:_CELLS_IN_ROW]]
                cut |= any(cell is not None for cell in row[_CELLS_IN_ROW:])
                left -= len(cells)
                if left < 0:
                    break
                if any(cells):
                    lines.append("\t".join(cells).rstrip())
            yield {"heading": sheet.title, "page": 0, "text": "\n".join(lines)}
        if left < 0 or cut:
            yield _CUT
    except (ValueError, KeyError, TypeError, AttributeError, SyntaxError, OSError) as error:
        name = type(error).__name__
        raise UnusableMedia(f"it is no table that can be read ({name})") from None
    except zipfile.BadZipFile:
        raise UnusableMedia("it is no table that can be read (damaged)") from None


def _check_packed(data: bytes) -> None:
    """Refuse a file whose parts are too large when unpacked. Also refuse files that are not ZIP
    files, such as encrypted Office files."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise UnusableMedia("it is encrypted, or of an old format: save it anew without a password")
    try:
        parts = zipfile.ZipFile(io.BytesIO(data)).infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise UnusableMedia("it is damaged") from None
    if len(parts) > _PACKED_PARTS or sum(part.file_size for part in parts) > _UNPACKED:
        raise UnusableMedia(f"it unpacks to more than {_UNPACKED // 1024 // 1024} MB")


_READERS: dict[str, tuple[tuple[str, ...], Callable[[bytes, dict[str, int]], _Sections]]] = {
    "pdf": (("encodings", "pypdf"), _pdf),
    "docx": (("encodings", "lxml", "docx"), _docx),
    "xlsx": (("encodings", "lxml", "openpyxl"), _xlsx),
}


def _prepare(request: dict[str, Any]) -> Callable[[bytes], Answer]:
    packages, read = _READERS[request["kind"]]
    load_packages(*packages)
    most = request["most"]

    def work(data: bytes) -> Answer:
        left, sections, cut = most["chars"], [], False
        for section in read(data, most):
            text = section["text"][:left]
            cut = cut or section is _CUT or len(text) < len(section["text"])
            left -= len(text)
            if text.strip():
                sections.append({**section, "text": text})
            if left <= 0:
                cut = True
                break
        made = json.dumps(sections).encode("utf-8", "replace")
        return {"cut": cut}, made

    return work


if __name__ == "__main__":
    serve_once(_prepare)
