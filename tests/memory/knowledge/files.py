"""Makes documents for tests: PDF, Word, tables, bombs."""

import io
import zipfile

from docx import Document
from openpyxl import Workbook
from pypdf import PdfReader, PdfWriter


def pdf(*pages: str, password: str = "") -> bytes:
    """A PDF with one line of text on each page."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, text in enumerate(pages):
        page = (
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>"
        )
        drawn = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode()
        objects += [
            page.encode(),
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn),
        ]
    made, places = bytearray(b"%PDF-1.4\n"), []
    for number, each in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = len(made)
    made += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    made += b"".join(b"%010d 00000 n \n" % place for place in places)
    made += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        len(objects) + 1,
        table,
    )
    if not password:
        return bytes(made)
    writer = PdfWriter(PdfReader(io.BytesIO(made)))
    writer.encrypt(password)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def docx(*parts: tuple[str, str]) -> bytes:
    """A Word document with headings and the text under each."""
    document = Document()
    for heading, text in parts:
        document.add_heading(heading, 1)
        document.add_paragraph(text)
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "filter", "36 euros"
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def xlsx(**sheets: list[list[object]]) -> bytes:
    """A table with these sheets."""
    book = Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def zip_bomb(inner: str) -> bytes:
    """A small file that unpacks to 300 MB."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("[Content_Types].xml", "<x/>")
        with bomb.open(inner, "w") as part:
            for _ in range(300):
                part.write(b" " * 1024 * 1024)
    return out.getvalue()


def many_laughs() -> bytes:
    """A Word document whose XML would expand to gigabytes."""
    lines = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    xml = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "ha">{lines}]><x>&l11;</x>'
    source, out = zipfile.ZipFile(io.BytesIO(docx(("A", "b")))), io.BytesIO()
    with zipfile.ZipFile(out, "w") as changed:
        for part in source.infolist():
            data = xml.encode() if part.filename == "word/document.xml" else source.read(part)
            changed.writestr(part.filename, data)
    return out.getvalue()
