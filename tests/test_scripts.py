"""What `make` says before it begins, on machines where it cannot go well."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


def stale(folder: Path) -> str:
    """What is said of an environment in a folder."""
    return subprocess.run(
        ["sh", SCRIPTS / "stale.sh", ".venv"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with blanks and signs in its name, and a fresh environment in it."""
    folder = tmp_path / "a (new) + bot"
    folder.mkdir()
    venv.create(folder / ".venv", symlinks=True)
    return folder


def test_an_environment_that_is_as_it_was_made(home: Path) -> None:
    assert stale(home) == ""


def test_one_that_was_moved(home: Path) -> None:
    moved = home.rename(home.with_name("b"))
    assert "was made in another folder. Run: make clean" in stale(moved)


def test_one_whose_python_is_gone(home: Path) -> None:
    python = home / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nonexistent/python3")
    assert "The Python of .venv is gone. Run: make clean" in stale(home)


def test_one_whose_python_became_another_version(home: Path) -> None:
    (packages,) = (home / ".venv" / "lib").glob("python3.*")
    packages.rename(packages.with_name("python3.1"))
    assert "was made for another version of Python. Run: make clean" in stale(home)


@pytest.mark.parametrize(
    ("python", "says"),
    [
        ("", "There is no 'python3' here. Debian, Ubuntu: apt-get install python3-venv"),
        (
            'case "$*" in *version_info*) exit 1;; *) echo Python 3.9;; esac',
            "Python 3.9 came; 3.11",
        ),
        ('case "$*" in *ensurepip*) exit 1;; esac', "has no venv. Debian, Ubuntu: apt-get install"),
        (f'exec {sys.executable} "$@"', ""),
    ],
)
def test_what_a_bare_machine_lacks_is_named_with_its_remedy(
    tmp_path: Path, python: str, says: str
) -> None:
    for name in ("sh", "uname"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    if python:
        (tmp_path / "python3").write_text(f"#!/bin/sh\n{python}\n")
        (tmp_path / "python3").chmod(0o755)
    ended = subprocess.run(
        ["sh", SCRIPTS / "preflight.sh"],
        env={**os.environ, "PATH": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert says in ended.stderr
    assert bool(ended.returncode) == bool(says)
