"""Files that people post are described by a confined process that reads them."""

import io
import zipfile
from collections.abc import Callable

import docx
import openpyxl
import pytest
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, ByteStringObject

from nekro_core.media.file_look import MOST_BYTES, FileLooker, look_kind, real_ending


def workbook() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Sales"
    for row in (["city", "amount"], ["Berlin", 12], ["Paris", None]):
        sheet.append(row)
    book.create_sheet("Notes")
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


def document() -> bytes:
    made = docx.Document()
    made.add_paragraph("Annual report")
    made.add_paragraph("We grew. " * 200)
    made.add_table(2, 2)
    target = io.BytesIO()
    made.save(target)
    return target.getvalue()


def pages(password: str = "", identifier: bytes = b"") -> bytes:
    writer = PdfWriter()
    if identifier:
        writer._ID = ArrayObject([ByteStringObject(identifier)] * 2)
    writer.add_blank_page(200, 200)
    writer.add_blank_page(200, 200)
    if password:
        writer.encrypt(password)
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def chinese_page(encoding: str, text: bytes) -> bytes:
    """Return a PDF with one line of text, in an encoding of Chinese fonts."""
    font = (
        f"<</Type/Font/Subtype/Type0/BaseFont/SimSun/Encoding/{encoding}/DescendantFonts[5 0 R]>>"
    )
    drawn = b"BT /F1 12 Tf 20 100 Td <%s> Tj ET" % text.hex().encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 6 0 R"
            b"/Resources<</Font<</F1 4 0 R>>>>>>"
        ),
        font.encode(),
        (
            b"<</Type/Font/Subtype/CIDFontType0/BaseFont/SimSun/DW 1000"
            b"/CIDSystemInfo<</Registry(Adobe)/Ordering(GB1)/Supplement 2>>>>"
        ),
        b"<</Length %d>>stream\n%s\nendstream" % (len(drawn), drawn),
    ]
    made, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer\n<</Size 7/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % len(made)
    return made + b"xref\n0 7\n0000000000 65535 f \n" + table + end


def archive(**files: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return target.getvalue()


def bomb() -> bytes:
    target = io.BytesIO()
    with (
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made,
        made.open("xl/workbook.xml", "w", force_zip64=True) as part,
    ):
        for _ in range(256):
            part.write(bytes(1024 * 1024))
    return target.getvalue()


ENTITIES = b"""<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
<!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;"><!ENTITY e "&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;">
<!ENTITY f "&e;&e;&e;&e;&e;&e;&e;&e;&e;&e;"><!ENTITY g "&f;&f;&f;&f;&f;&f;&f;&f;&f;&f;">
<!ENTITY h "&g;&g;&g;&g;&g;&g;&g;&g;&g;&g;">]><x>&h;</x>"""


@pytest.mark.parametrize(
    ("name", "mime", "made", "told"),
    [
        (
            "sales.csv",
            "text/plain",
            lambda: b"\xef\xbb\xbfcity,amount\nBerlin,12\nParis,14\n",
            "a table of 3 lines in utf-8, 2 columns: city; amount\nfirst rows: Berlin; 12 | Paris",
        ),
        (
            "表.csv",
            "text/plain",
            lambda: "城市;数量\n北京;12\n".encode("gb18030"),
            "a table of 2 lines in gb18030, 2 columns: 城市; 数量\nfirst rows: 北京; 12",
        ),
        ("a.txt", "text/plain", lambda: b"one\ntwo", "text of 2 lines in utf-8\nbegins: one two"),
        (
            "a.xlsx",
            "application/zip",
            workbook,
            "a workbook of 2 sheets: Sales (3 rows, 2 ",
        ),
        ("a.docx", "application/zip", document, "a Word document of 1 pages, 2 paragraphs, 1 tabl"),
        ("a.pdf", "application/pdf", pages, "a PDF of 2 pages\nno text on the first pages"),
        (
            "a.pdf",
            "application/pdf",
            lambda: pages("secret"),
            "a PDF that is encrypted: it cannot be read without its password",
        ),
        (
            "a.zip",
            "application/zip",
            lambda: archive(**{"logs/a.log": b"x" * 1000, "b.txt": b"y"}),
            "an archive of 2 files, 1001 bytes unpacked\nfiles: logs/a.log (1000 bytes), b.txt",
        ),
        ("b.xlsx", "application/zip", bomb, "it cannot be read: it unpacks to more than one file"),
        (
            "e.docx",
            "application/zip",
            lambda: archive(**{"[Content_Types].xml": ENTITIES, "word/document.xml": ENTITIES}),
            "it cannot be read: ",
        ),
        ("x.pdf", "application/pdf", lambda: b"%PDF-1.7 garbage", "it cannot be read: it is dama"),
        ("x.zip", "application/zip", lambda: b"PK\x03\x04 garbage", "it cannot be read: it is dam"),
        (
            "big.csv",
            "text/plain",
            lambda: b"x" * (MOST_BYTES + 1),
            "not looked into: it has more than 32 MB",
        ),
    ],
)
async def test_a_file_is_described_in_one_or_two_lines(
    name: str, mime: str, made: Callable[[], bytes], told: str
) -> None:
    ending = real_ending(mime, {"text/plain": "txt"}.get(mime, "zip"), name)
    kind = look_kind(mime, ending)
    assert kind is not None
    look = await FileLooker().look(made(), kind, name)
    assert look.startswith(told)
    assert len(look.splitlines()) <= 2
    assert len(look) < 1500


@pytest.mark.parametrize(
    "identifier",
    [
        pytest.param("0027f2fa1fd53e624954c797e854b2d6", id="like UTF-16, high byte first"),
        pytest.param("5ae0ea2d3655f00cc9505a0fb3e9508d", id="with a check value like UTF-16"),
        pytest.param("fffe11003c104a2a6b2c9a0201008d00", id="with the mark of UTF-16"),
    ],
)
async def test_an_encrypted_pdf_is_recognised_whatever_its_identifier_looks_like(
    identifier: str,
) -> None:
    data = pages("secret", bytes.fromhex(identifier))
    look = await FileLooker().look(data, "pdf", "a.pdf")
    assert look == "a PDF that is encrypted: it cannot be read without its password"


@pytest.mark.parametrize(
    ("encoding", "codec"),
    [("GBK-EUC-H", "gbk"), ("UniGB-UCS2-H", "utf-16-be"), ("Identity-H", "utf-16-be")],
)
async def test_the_text_of_a_chinese_pdf_is_shown(encoding: str, codec: str) -> None:
    data = chinese_page(encoding, "年度报告".encode(codec))
    look = await FileLooker().look(data, "pdf", "a.pdf")
    assert look == "a PDF of 1 pages\nbegins: 年度报告"


@pytest.mark.parametrize(
    ("mime", "ending", "name", "real"),
    [
        ("text/plain", "txt", "sales.CSV", "csv"),
        ("application/zip", "zip", "report.docx", "docx"),
        ("application/zip", "zip", "a.csv", "zip"),
        ("image/png", "png", "a.csv", "png"),
        ("text/plain", "txt", "run.exe", "txt"),
        ("text/plain", "txt", "../../etc/passwd.csv", "csv"),
        ("text/html", "html", "a.md", "html"),
        ("text/plain", "txt", "", "txt"),
    ],
)
def test_the_ending_of_a_stored_files_name_fits_its_content(
    mime: str, ending: str, name: str, real: str
) -> None:
    assert real_ending(mime, ending, name) == real
