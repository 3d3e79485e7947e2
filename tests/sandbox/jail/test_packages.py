"""Code in real boxes uses the packages that every box has."""

from collections.abc import AsyncIterator

import anyio
import pytest

from nekro_core.sandbox.box import Backend, Box, BoxSpec
from nekro_core.sandbox.box_packages import NAMES, PackagesUnavailable
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.settings import SandboxSettings
from tests.sandbox.run_code import play

pytestmark = [pytest.mark.jail, pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
async def backend(anyio_backend: str) -> AsyncIterator[Backend]:
    async with anyio.create_task_group() as tasks:
        jail = JailBackend(SandboxSettings(packages=True), tasks)
        await jail.images()
        assert jail.packages is not None
        try:
            await jail.packages.fetch()
        except PackagesUnavailable as error:
            await jail.aclose()
            pytest.skip(str(error))
        assert jail.packages.names == NAMES
        yield jail
        await jail.aclose()
        tasks.cancel_scope.cancel()


@pytest.fixture
async def box(backend: Backend) -> AsyncIterator[Box]:
    box = await backend.create(BoxSpec())
    yield box
    await box.destroy()


async def test_a_table_is_read_and_drawn_with_chinese_words(box: Box) -> None:
    await box.write_file("/home/user/sales.csv", "城市,值\n北京,3\n上海,5\n".encode())
    code = """
import warnings
warnings.simplefilter("error")
import pandas
import matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot
table = pandas.read_csv("sales.csv")
pyplot.bar(table["城市"], table["值"])
pyplot.title("按城市")
pyplot.savefig("chart.png")
table.to_excel("sales.xlsx", index=False)
print(table.loc[table["值"].idxmax(), "城市"])
"""
    assert (await play(box, code)).output.strip() == "上海"
    assert (await box.read_file("/home/user/chart.png", limit=1_000_000)).startswith(b"\x89PNG")
    assert (await box.read_file("/home/user/sales.xlsx", limit=1_000_000)).startswith(b"PK")


async def test_a_picture_is_rotated_and_a_drawing_is_made(box: Box) -> None:
    code = """
from PIL import Image, ImageDraw
picture = Image.new("RGB", (60, 40), "white")
draw = ImageDraw.Draw(picture)
draw.rectangle((10, 20, 40, 39), fill="brown")
draw.polygon(((5, 20), (25, 5), (45, 20)), fill="red")
picture.convert("L").rotate(90, expand=True).save("house.png")
print(Image.open("house.png").size, Image.open("house.png").mode)
"""
    assert (await play(box, code)).output.strip() == "(40, 60) L"


async def test_documents_and_formulas_work(box: Box) -> None:
    code = """
import docx, pypdf, lxml.etree, sympy, openpyxl, numpy
document = docx.Document()
document.add_paragraph("hello")
document.save("letter.docx")
print(docx.Document("letter.docx").paragraphs[0].text)
x = sympy.symbols("x")
print(sympy.integrate(x**2, x), int(numpy.arange(4).sum()))
"""
    assert (await play(box, code)).output.split() == ["hello", "x**3/3", "6"]


async def test_the_packages_cannot_be_changed_and_show_no_path_of_the_host(box: Box) -> None:
    code = """
import os
try:
    open("/opt/packages/numpy/evil.py", "w")
except OSError as error:
    print(error.strerror)
print([line.split()[3] for line in open("/proc/self/mountinfo") if "/opt/packages" in line])
"""
    refused, mounted = (await play(box, code)).output.strip().split("\n")
    assert refused == "Read-only file system"
    assert "box-packages" in mounted
    assert "/home" not in mounted
