"""Tests of two programs that run in containers. One fills a volume with packages; the other one
adds the packages to the import path of each Python that starts. These tests need no engine."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from nekro_core.sandbox.docker import boot
from nekro_core.sandbox.docker.package_filling import pack_packages

VERSION = "{}.{}".format(*sys.version_info[:2])


def packages(folder: Path, **modules: str) -> Path:
    """Make a folder of packages, and return it. Each module is a folder whose ``__init__.py`` has
    the given source."""
    for name, source in modules.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(source)
    return folder


def fill(place: Path, folder: Path, *modules: str, keep_bytes: int | None = None) -> str:
    """Run the program that fills the volume, here the folder ``place``, with the packages of
    ``folder``. Return the error that the program reports; empty if there is none. With
    ``keep_bytes``, the program gets only so many bytes of the archive of the packages."""
    place.mkdir(exist_ok=True)
    archive = io.BytesIO()
    told = {
        "place": str(place),
        "entries": pack_packages(folder, archive),
        "modules": modules,
        "shown_last": modules,
    }
    sent = boot.pieces(boot.program("fill_packages"), json.dumps(told).encode())
    done = subprocess.run(
        boot.command(sys.executable),
        input=sent + archive.getvalue()[:keep_bytes],
        capture_output=True,
        check=True,
        timeout=60,
    )
    answer = done.stdout.lstrip(b".")
    assert answer.endswith(b"\n")
    return str(json.loads(answer)["error"])


def test_packages_are_unpacked_and_compiled(tmp_path: Path) -> None:
    source = packages(tmp_path / "source", first="x = 1", second="from first import x")
    (source / "first" / "data.bin").write_bytes(b"\0" * 100_000)
    (source / "first" / f"{'n' * 120}.txt").write_text("a long name")
    (source / ".complete").touch()  # a folder that was filled for the jail has this file
    place = tmp_path / "place"
    assert fill(place, source, "first", "second") == ""
    assert sorted(path.name for path in place.iterdir()) == [
        *(".complete", "first", "second", "startup"),
    ]
    assert (place / "first" / "data.bin").stat().st_size == 100_000
    assert (place / "first" / f"{'n' * 120}.txt").read_text() == "a long name"
    assert (place / ".complete").read_text() == VERSION
    for name in ("first", "second", "startup"):
        (compiled,) = (place / name / "__pycache__").iterdir()
        assert b".new" not in compiled.read_bytes(), "it must have the path that boxes see"


def test_if_an_import_fails_this_is_reported_and_boxes_see_no_packages(tmp_path: Path) -> None:
    source = packages(
        tmp_path / "source", first="x = 1", second="import first\nraise OSError('no')"
    )
    place = tmp_path / "place"
    assert fill(place, source, "first", "second") == "OSError: no"
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("lost", [512, 1024 * 20, 1])
def test_if_the_archive_ends_early_this_is_reported_and_boxes_see_no_packages(
    tmp_path: Path, lost: int
) -> None:
    source = packages(tmp_path / "source", **{f"m{number}": "x = 1" for number in range(30)})
    archive = io.BytesIO()
    pack_packages(source, archive)
    with tarfile.open(fileobj=io.BytesIO(archive.getvalue())) as opened:
        end = max(member.offset_data for member in opened) + 512  # the end of the last member
    place = tmp_path / "place"
    assert "Error" in fill(place, source, "m1", keep_bytes=(end // 512 - lost // 512 - 1) * 512)
    assert list(place.iterdir()) == []


def test_a_complete_folder_is_left_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "place"
    assert fill(place, packages(tmp_path / "one", first="x = 1"), "first") == ""
    assert fill(place, packages(tmp_path / "two", first="x = 2"), "first") == ""
    assert (place / "first" / "__init__.py").read_text() == "x = 1"


def test_what_an_interrupted_fill_left_is_replaced(tmp_path: Path) -> None:
    place = packages(tmp_path / "place", first="half")
    (place / ".new").mkdir()
    assert fill(place, packages(tmp_path / "one", first="x = 1"), "first") == ""
    assert (place / "first" / "__init__.py").read_text() == "x = 1"
    assert not (place / ".new").exists()


# The import path of programs


def started(place: Path, code: str, *more: Path) -> str:
    """Run the code in a new Python, and return what it prints. PYTHONPATH has the folder of the
    packages' ``sitecustomize.py``, and after it the folders ``more``."""
    path = ":".join(map(str, (place / "startup", *more)))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_programs_get_the_packages_after_those_of_their_image(tmp_path: Path) -> None:
    place = tmp_path / "place"
    fill(place, packages(tmp_path / "source", shared="", first="x = 'shared'"), "shared", "first")
    own = packages(tmp_path / "own", first="x = 'own'")
    assert started(place, "import shared, first; print(first.x)") == "shared"
    assert started(place, "import shared, first; print(first.x)", own) == "own"
    (own / "sitecustomize.py").write_text("print('of the image')")
    assert started(place, "import first; print(first.x)", own).split("\n") == [
        *("of the image", "own"),
    ]
    look = "import sys; print(any('startup' in path for path in sys.path), sys.path[-1])"
    assert started(place, look) == f"False {place}"


@pytest.mark.parametrize("complete", ["3.1", None])
def test_a_python_of_another_version_gets_no_packages(tmp_path: Path, complete: str | None) -> None:
    place = tmp_path / "place"
    fill(place, packages(tmp_path / "source", shared=""), "shared")
    if complete is None:
        (place / ".complete").unlink()
    else:
        (place / ".complete").write_text(complete)
    look = "import importlib.util as util; print(util.find_spec('shared'))"
    assert started(place, look) == "None"
