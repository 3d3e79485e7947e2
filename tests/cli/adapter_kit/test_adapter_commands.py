"""``nekro adapter``: ``new`` writes adapters that work; ``check`` and ``list`` report mistakes."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.nekro import nekro

ROOT = Path(__file__).parents[3]
FILES = [
    "README.md",
    "__init__.py",
    "adapter.py",
    "adapter.toml",
    "pytest.ini",
    "tests/test_tcp_lines.py",
]


def test_a_new_adapter_passes_check_and_its_contract_tests(tmp_path: Path) -> None:
    made = nekro(tmp_path, "adapter", "new", "tcp_lines")
    assert made.status == 0, made.err
    folder = tmp_path / "data" / "adapters" / "tcp_lines"
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert sorted(path.relative_to(folder).as_posix() for path in written) == FILES
    assert not any("$" in path.read_text() for path in written)
    checked = nekro(tmp_path, "adapter", "check", "data/adapters/tcp_lines")
    assert checked.status == 0, checked.err
    assert 'it runs where NEKRO_PLATFORMS names it: ["tcp_lines"]' in checked.out
    assert "nothing to mend" in checked.out
    judged = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", str(folder)],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert judged.returncode == 0, judged.stdout
    assert "28 passed" in judged.stdout
    listed = nekro(tmp_path, "adapter", "list")
    assert (listed.status, f"off     tcp_lines    Tcp lines  {folder}" in listed.out) == (0, True)
    again = nekro(tmp_path, "adapter", "new", "tcp_lines")
    assert (again.status, "is there already" in again.err) == (1, True)


@pytest.mark.long
@pytest.mark.slow
def test_a_new_adapter_passes_the_checks_of_a_checkout(tmp_path: Path) -> None:
    """Names of any length keep lines within 100 characters."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "nekro_core").symlink_to(ROOT / "nekro_core")
    (tmp_path / "adapters").mkdir()
    shutil.copy(ROOT / "adapters" / "__init__.py", tmp_path / "adapters")
    for name in ("z", "tcp_lines", "lines_of_text_over_the_internet_"):
        made = nekro(tmp_path, "adapter", "new", name, "--folder", "adapters")
        assert made.status == 0, made.err
    for check in ("ruff check", "ruff format --check", "mypy --strict"):
        checked = subprocess.run(
            [sys.executable, "-m", *check.split(), "adapters"],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
        )
        assert checked.returncode == 0, f"{check}\n{checked.stdout}{checked.stderr}"
    # tests/house refuses a class name that two adapters use.
    code = "\n".join(path.read_text() for path in (tmp_path / "adapters").rglob("*.py"))
    classes = re.findall(r"^class (\w+)", code, re.MULTILINE)
    assert len(classes) == len({*classes}) > 0


@pytest.mark.parametrize("name", ["Slack", "1st", "for", "a-b", "../up", "x" * 33])
def test_a_name_that_cannot_be_used_is_refused(tmp_path: Path, name: str) -> None:
    made = nekro(tmp_path, "adapter", "new", name, "--folder", "here")
    assert made.status == 1
    assert f"the name {name!r} cannot be used: at most 32 lower-case letters" in made.err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("manifest", "code", "words"),
    [
        ("[slack]\nfoo = 1", "", "[slack] foo is not known; there are title"),
        ("[slack]", "", "makes no adapter slack: expected a function create(host, driver)"),
        ("[slack]", "import nothing_of_this_name", "cannot be imported"),
        (
            '[slack]\neraser = "adapter:forget"',
            "def create(host, driver): ...",
            "eraser = 'adapter:forget' cannot be had",
        ),
    ],
)
def test_check_reports_what_is_wrong(tmp_path: Path, manifest: str, code: str, words: str) -> None:
    folder = tmp_path / "slack"
    folder.mkdir()
    (folder / "adapter.toml").write_text(manifest)
    (folder / "__init__.py").write_text(code)
    checked = nekro(tmp_path, "adapter", "check", "slack")
    assert (checked.status, words in checked.err) == (1, True), checked.err


def test_list_reports_a_missing_manifest_and_an_unknown_platform(tmp_path: Path) -> None:
    (tmp_path / "data" / "adapters" / "slack").mkdir(parents=True)
    (tmp_path / ".env").write_text('NEKRO_PLATFORMS=["telegran"]')
    listed = nekro(tmp_path, "adapter", "list")
    assert listed.status == 1
    assert "always  onebot_v11" in listed.out
    assert "slack has no adapter.toml" in listed.err
    assert "no platform 'telegran'; did you mean telegram?" in listed.err
