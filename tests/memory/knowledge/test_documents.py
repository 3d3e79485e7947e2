"""Documents are read by page and heading in a confined process. An archive that unpacks to too much
is refused. A PDF that has only scanned pages, without text, is reported."""

import pytest

from nekro_core.media.documents import MAX_BYTES, DocumentReader, DocumentSection
from nekro_core.media.errors import UnusableMedia
from tests.memory.knowledge.files import docx, many_laughs, pdf, xlsx, zip_bomb

reader = DocumentReader()


async def test_a_pdf_is_read_page_by_page() -> None:
    found = await reader.read("manual.PDF", pdf("The pump needs oil.", "Change the filter in May."))
    assert [(each.page, each.text.strip()) for each in found.sections] == [
        (1, "The pump needs oil."),
        (2, "Change the filter in May."),
    ]


async def test_a_word_document_is_read_along_its_headings() -> None:
    found = await reader.read("a.docx", docx(("Oil", "Every year."), ("Filter", "In May.")))
    assert found.sections == (
        DocumentSection(heading="Oil", text="Every year."),
        DocumentSection(heading="Filter", text="In May.\nfilter\t36 euros"),
    )


async def test_a_table_is_read_sheet_by_sheet() -> None:
    data = xlsx(Prices=[["part", "euros"], ["filter", 36]], Empty=[], Staff=[["Lin", None, 3.5]])
    found = await reader.read("a.xlsx", data)
    assert found.sections == (
        DocumentSection(heading="Prices", text="part\teuros\nfilter\t36"),
        DocumentSection(heading="Staff", text="Lin\t\t3.5"),
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("Grüße, 你好".encode(), "Grüße, 你好"),
        ("你好，世界".encode("gb18030"), "你好，世界"),
        ("Grüße".encode("utf-16"), "Grüße"),
    ],
)
async def test_plain_text_is_read_in_its_encoding(data: bytes, text: str) -> None:
    assert (await reader.read("a.txt", data)).sections == (DocumentSection(text=text),)


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.exe", b"MZ", r"files of the kind '.exe' are not read; these are: csv, docx"),
        ("a.txt", b"", "it is empty"),
        ("a.txt", b" \n ", "it is empty"),
        ("a.txt", b"ab\0\0\0", "it is no text"),
        ("a.pdf", b"%PDF-1.7 and then nothing", "no PDF that can be read"),
        ("a.docx", b"PK\x03\x04 and then nothing", "it is damaged"),
        ("a.docx", b"\xd0\xcf\x11\xe0" + b"\0" * 600, "it is encrypted, or of an old format"),
        ("a.xlsx", xlsx(Empty=[]), "it has no text"),
        ("a.xlsx", docx(("A", "b")), "no table that can be read"),
        ("a.pdf", b"x" * (MAX_BYTES + 1), "it has more than 32 MB"),
    ],
    ids=[
        "a program",
        "nothing",
        "spaces",
        "bytes",
        "half a PDF",
        "half a Word document",
        "an encrypted Word document",
        "an empty table",
        "a Word document as a table",
        "too large",
    ],
)
async def test_an_unreadable_document_is_reported_with_the_reason(
    name: str, data: bytes, why: str
) -> None:
    with pytest.raises(UnusableMedia, match=why):
        await reader.read(name, data)


async def test_an_encrypted_pdf_and_a_scan_are_reported() -> None:
    with pytest.raises(UnusableMedia, match="encrypted: save it without a password"):
        await reader.read("a.pdf", pdf("secret", password="xyz"))
    with pytest.raises(UnusableMedia, match="its 3 pages have no text: it is a scan"):
        await reader.read("a.pdf", pdf("", "", ""))


async def test_small_files_that_unpack_to_too_much_are_refused() -> None:
    with pytest.raises(UnusableMedia, match="unpacks to more than 256 MB"):
        await reader.read("a.docx", zip_bomb("word/document.xml"))
    with pytest.raises(UnusableMedia, match="unpacks to more than 256 MB"):
        await reader.read("a.xlsx", zip_bomb("xl/worksheets/sheet1.xml"))
    with pytest.raises(UnusableMedia):
        await reader.read("a.docx", many_laughs())


@pytest.mark.slow
@pytest.mark.long
async def test_of_100_000_pages_the_first_are_read_and_the_rest_is_said_to_be_missing() -> None:
    data = pdf(*["the door is red"] * 100_000)
    assert len(data) < MAX_BYTES
    document = await reader.read("a.pdf", data)
    assert document.cut
    assert [each.page for each in document.sections] == [*range(1, 2_001)]


@pytest.mark.long
@pytest.mark.slow
async def test_a_table_with_too_many_cells_is_cut_and_says_so() -> None:
    rows: list[list[object]] = [["x"] * 200 for _ in range(2_501)]
    document = await reader.read("a.xlsx", xlsx(Many=rows))
    assert document.cut
    assert len(document.sections[0].text.splitlines()) == 2_500
    whole = await reader.read("a.xlsx", xlsx(Few=rows[:5]))
    assert not whole.cut


async def test_a_table_with_too_many_columns_is_cut_and_says_so() -> None:
    document = await reader.read("a.xlsx", xlsx(Wide=[["a"], ["x"] * 201]))
    assert document.cut
    assert len(document.sections[0].text.splitlines()[1].split("\t")) == 200
