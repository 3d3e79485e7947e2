"""Tests of the packages that boxes share. The boxes of every backend must pass them.

These tests are not part of `BackendConformance`, because they need packages, which must be fetched
before.
"""

from nekro_core.sandbox.box import Backend, Box
from nekro_core.sandbox.package_fetch import NAMES
from tests.sandbox.run_code import play


class PackageConformance:
    """The tests. A subclass needs two fixtures: ``backend``, for which the packages have been
    fetched, and ``box``, which gives a new box to each test."""

    async def test_the_backend_names_the_packages(self, backend: Backend, box: Box) -> None:
        assert backend.packages is not None
        assert backend.packages.names == NAMES
        assert backend.packages.failure == ""
        code = "\n".join(f"import {name}" for name in NAMES)
        assert (await play(box, f"{code}\nprint('all')")).output == "all\n"

    async def test_a_table_is_read_and_drawn_with_chinese_words(self, box: Box) -> None:
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
        chart = await box.read_file("/home/user/chart.png", limit=1_000_000)
        assert chart.startswith(b"\x89PNG")
        table = await box.read_file("/home/user/sales.xlsx", limit=1_000_000)
        assert table.startswith(b"PK")

    async def test_a_picture_is_rotated_and_a_drawing_is_made(self, box: Box) -> None:
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

    async def test_documents_and_formulas_work(self, box: Box) -> None:
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

    async def test_programs_that_a_command_starts_have_the_packages(self, box: Box) -> None:
        done = await box.execute("python3 -c 'import numpy; print(numpy.arange(4).sum())'")
        assert (done.stdout.text, done.stderr.text) == ("6\n", "")

    async def test_the_modules_are_compiled(self, box: Box) -> None:
        code = """
            import importlib.util, os
            for name in ("pandas", "sympy", "docx"):
                source = importlib.util.find_spec(name).origin
                with open(importlib.util.cache_from_source(source), "rb") as file:
                    noted = int.from_bytes(file.read(12)[8:], "little")
                print(noted == int(os.stat(source).st_mtime))
        """
        assert (await play(box, code)).output.split() == ["True"] * 3

    async def test_the_packages_cannot_be_changed_and_show_no_path_of_a_home(
        self, box: Box
    ) -> None:
        code = """
            import os
            for action in (
                lambda: open("/opt/packages/numpy/evil.py", "w"),
                lambda: os.unlink("/opt/packages/.complete"),
                lambda: os.mkdir("/opt/packages/evil"),
            ):
                try:
                    action()
                except OSError as error:
                    print(error.strerror)
            lines = [line for line in open("/proc/self/mountinfo") if " /opt/packages " in line]
            print(lines[0].split()[3])
        """
        *refused, mounted = (await play(box, code)).output.strip().split("\n")
        assert refused == ["Read-only file system"] * 3
        assert "box-packages" in mounted
        assert "/home" not in mounted
