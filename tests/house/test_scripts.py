"""The tests check what the scripts behind `make` report on an unsuitable machine, and how they
judge results."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def stale(folder: Path) -> str:
    """The report of ``stale.sh`` about the environment in a folder; empty if the environment can be
    used."""
    return subprocess.run(
        ["sh", SCRIPTS / "stale.sh", ".venv"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a new environment; its name has blanks and special characters."""
    folder = tmp_path / "a (new) + bot"
    folder.mkdir()
    venv.create(folder / ".venv", symlinks=True)
    return folder


def test_an_unchanged_environment_is_accepted(home: Path) -> None:
    assert stale(home) == ""


def test_a_moved_environment_is_reported(home: Path) -> None:
    moved = home.rename(home.with_name("b"))
    assert "was made in another folder. Run: make clean" in stale(moved)


def test_an_environment_without_its_python_is_reported(home: Path) -> None:
    python = home / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nonexistent/python3")
    assert "The Python of .venv is gone. Run: make clean" in stale(home)


def test_an_environment_of_another_python_version_is_reported(home: Path) -> None:
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
def test_a_missing_program_is_reported_with_the_command_that_installs_it(
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


def test_fresh_root_refuses_a_folder_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("a letter")
    ended = script("fresh_root.sh", str(tmp_path), folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "holds something that is no fresh Debian of ours; name an empty folder" in ended.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
    blank = script("fresh_root.sh", str(tmp_path / "a b"), folder=tmp_path)
    assert "debootstrap takes no folder with a blank in its name" in blank.stderr


PAGE = """
import http.server, os, pathlib, signal
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
note = pathlib.Path("data/running.json")
note.write_text("")
def end(*_):
    note.unlink()
    os._exit(0)
signal.signal(signal.SIGTERM, end)
print(f"    http://127.0.0.1:{server.server_port}/?token=abc", flush=True)
server.serve_forever()
"""


@pytest.mark.parametrize(
    ("run", "tests_end_with", "code", "says"),
    [
        ("page", 0, 0, ["its page answered after", "200 text/html", "make test: ended with 0"]),
        ("page", 3, 3, ["its page answered after", "make test: ended with 3"]),
        ("echo no venv; exit 1", 0, 1, ["no venv", "make run: ended before its page answered"]),
        ("exec sleep 60", 0, 1, ["make run: its page did not answer within 2 s"]),
        ("touch data/running.json; page", 0, 1, ["did not end in good order"]),
    ],
)
def test_the_results_of_make_run_and_make_test_are_judged(
    tmp_path: Path, run: str, tests_end_with: int, code: int, says: list[str]
) -> None:
    (tmp_path / "data").mkdir()
    page = PAGE if not run.startswith("touch") else PAGE.replace("note.unlink()", "pass")
    (tmp_path / "page.py").write_text(page)
    begin = run.replace("page", f"exec {sys.executable} page.py")
    (tmp_path / "make").write_text(f'#!/bin/sh\n[ "$1" = run ] || exit {tests_end_with}\n{begin}\n')
    (tmp_path / "make").chmod(0o755)
    limit = "2" if "sleep" in run else "60"
    ended = script("readme_commands.sh", folder=tmp_path, LIMIT=limit)
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert all(each in ended.stdout for each in says), ended.stdout


def script(
    name: str, *arguments: str, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script. Programs in the folder hide those of the same name on the machine."""
    path = f"{folder}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", SCRIPTS / name, *arguments],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        check=False,
        capture_output=True,
        text=True,
    )


UNSTEADY = """
from pathlib import Path

def test_fails_once():
    if not Path("ran").exists():
        Path("ran").touch()
        raise AssertionError("somebody else used the processor")

def test_passes():
    with Path("runs").open("a") as runs:
        runs.write("x")
"""
BROKEN = "def test_always_fails():\n    assert False\n"


def run_tests(folder: Path, *arguments: str, **files: str) -> tuple[int, str]:
    """The exit status and the output of ``run_tests.sh`` in a folder with these test files."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:randomly\n")
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    done = subprocess.run(
        ["sh", SCRIPTS / "run_tests.sh", Path(sys.executable).with_name("pytest"), *arguments],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def test_a_test_that_passes_alone_is_listed_as_unsteady(tmp_path: Path) -> None:
    status, said = run_tests(tmp_path, "--numprocesses", "2", unsteady=UNSTEADY)
    assert status == 0
    report = said.partition("UNSTEADY")[2].splitlines()[1:]
    assert report == ["test_unsteady.py::test_fails_once"]
    assert (tmp_path / "runs").read_text() == "x", "the test that passed ran again"


def test_a_test_that_fails_again_fails_the_run(tmp_path: Path) -> None:
    status, said = run_tests(tmp_path, unsteady=UNSTEADY, broken=BROKEN)
    assert status == 1
    assert "UNSTEADY" not in said


def test_many_failures_are_not_run_again(tmp_path: Path) -> None:
    many = "".join(BROKEN.replace("always", f"always_{number}") for number in range(6))
    status, said = run_tests(tmp_path, many=many)
    assert status == 1
    assert "once more" not in said


def test_a_run_without_failures_says_nothing_more(tmp_path: Path) -> None:
    status, said = run_tests(tmp_path, good="def test_passes():\n    pass\n")
    assert status == 0
    assert said.rstrip().splitlines()[-1].startswith("=")


def test_a_file_that_cannot_be_imported_fails_the_run(tmp_path: Path) -> None:
    status, said = run_tests(tmp_path, bad="import nothing_of_this_name\n")
    assert status != 0
    assert "UNSTEADY" not in said


def test_a_wrong_argument_is_passed_on(tmp_path: Path) -> None:
    assert run_tests(tmp_path, "--no-such-option")[0] == 4
