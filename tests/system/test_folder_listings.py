"""Python finds a module that was written just now."""

import importlib
import os
import sys
from pathlib import Path

import pytest

from nekro_core.system.folder_listings import forget_listings


def write(path: Path, text: str, modified: float) -> None:
    """Write a module, and give its folder a fixed modification time, as if the clock of the file
    system had not moved on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path.parent, (modified, modified))


@pytest.fixture(autouse=True)
def no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no folder with bytecode, which would change the time of a module's folder."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def test_a_module_that_was_written_just_now_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path / "quince" / "__init__.py", "", 1_000.0)
    os.utime(tmp_path, (1_000.0, 1_000.0))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("quince.jam")
    write(tmp_path / "quince" / "jam.py", "pots = 3", 1_000.0)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("quince.jam")
    forget_listings(tmp_path)
    assert importlib.import_module("quince.jam").pots == 3
    for name in ("quince.jam", "quince"):
        del sys.modules[name]


def test_the_listings_of_other_folders_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder whose name only begins like the other one's is another folder."""
    monkeypatch.syspath_prepend(tmp_path / "plum_jam")
    write(tmp_path / "plum_jam" / "damson.py", "", 1_000.0)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("mirabelle")
    write(tmp_path / "plum_jam" / "mirabelle.py", "", 1_000.0)
    forget_listings(tmp_path / "plum")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("mirabelle")
