"""Uploaded plugin files are kept for a while. Only zips and Python files are accepted."""

import io
import os
import zipfile
from pathlib import Path

import pytest

from nekro_core.plugins.installation import uploads
from nekro_core.plugins.installation.sources import SourceRefused, parse
from nekro_core.plugins.installation.uploads import PluginUploads


def packed(text: str = "") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("cup/__init__.py", text)
    return made.getvalue()


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("cup.zip", "cup.zip"),
        ("../../etc/cup.zip", "cup.zip"),
        ("C:\\files\\my cup.zip", "my_cup.zip"),
        ("-rf.zip", "rf.zip"),
    ],
)
def test_an_upload_is_stored_under_a_safe_form_of_its_name_and_can_be_installed(
    tmp_path: Path, name: str, stored: str
) -> None:
    place = PluginUploads(tmp_path / "uploads").keep(name, packed())
    assert place.name == stored
    assert place.is_relative_to(tmp_path / "uploads")
    assert parse(str(place)).kind == "zip"


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("cup.exe", b"MZ", r"expected a \.zip or a \.py file"),
        ("zip", packed(), r"expected a \.zip or a \.py file"),
        ("cup.zip", packed()[:-30], "no zip, or a part of it is missing"),
        ("cup.zip", b"", "no zip"),
    ],
    # pytest cannot make the ids, because the bytes of a zip contain the time
    ids=["program", "no ending", "part of a zip", "empty"],
)
def test_a_file_that_cannot_be_a_plugin_is_refused(
    tmp_path: Path, name: str, data: bytes, told: str
) -> None:
    with pytest.raises(SourceRefused, match=told):
        PluginUploads(tmp_path).keep(name, data)
    assert [*tmp_path.iterdir()] == []


def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_BYTES", 3)
    with pytest.raises(SourceRefused, match="4 bytes, at most 3 can be uploaded"):
        PluginUploads(tmp_path).keep("cup.py", b"1234")


def test_only_the_newest_uploads_are_kept(tmp_path: Path) -> None:
    kept = PluginUploads(tmp_path)
    places = []
    for number in range(13):
        place = kept.keep("cup.zip", packed(f"# {number}"))
        os.utime(place.parent, (number, number))
        places.append(place)
    assert [place.is_file() for place in places] == [False] * 3 + [True] * 10
