"""If pip is missing or too old, another pip does the work. The report of a failed pip has three
lines: which plugin needs the package, the reason, and what to do."""

import zipfile
from pathlib import Path

import pytest

from nekro_core.plugins.packages import PackageFolder, PackagesRefused
from nekro_core.plugins.packages.requirements import PluginRequirement, parse_requirement
from tests.plugins.packages.wheels import make_wheel, only_these

NEWER = """
import ensurepip, os, sys
from pathlib import Path
(bundled,) = Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl")
Path(os.environ["NK_SEEN"]).open("a").write("the newer pip ran\\n")
os.environ.pop("PYTHONPATH", None)
os.execv(sys.executable, [sys.executable, str(bundled / "pip"), *sys.argv[1:]])
"""
"""Code that stands for a newer pip: it runs the pip that comes with Python."""


UNREACHABLE = """\
WARNING: Retrying: NewConnectionError('x'): [Errno 101] Network is unreachable
ERROR: No matching distribution found for nk_none
"""


def replace_pip(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let ``python -m pip`` run ``code``."""
    (folder / "pip").mkdir(parents=True)
    (folder / "pip" / "__init__.py").touch()
    (folder / "pip" / "__main__.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def wanted(*texts: str) -> list[PluginRequirement]:
    return [PluginRequirement(parse_requirement(text), "ann.a") for text in texts]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    only_these(tmp_path / "index", monkeypatch)
    make_wheel(tmp_path / "index", "nk_low", "1.0")
    return tmp_path / "index"


@pytest.mark.slow
@pytest.mark.long
def test_an_environment_without_pip_uses_the_one_that_comes_with_python(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_pip(tmp_path / "none", monkeypatch, "raise SystemExit('python: No module named pip')")
    assert PackageFolder(tmp_path).ensure("ann.a", wanted("nk_low")) == {"nk-low": "1.0"}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    "code",
    [
        "raise SystemExit('error: resolution-too-deep')",
        "raise SystemExit('no such option: --report')",
        "raise AssertionError('the resolver broke')",
    ],
)
def test_a_newer_pip_is_fetched_if_the_old_one_fails(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    replace_pip(tmp_path / "old", monkeypatch, code)
    seen = tmp_path / "seen.txt"
    monkeypatch.setenv("NK_SEEN", str(seen))
    make_wheel(index, "pip", "99.0")
    with zipfile.ZipFile(index / "pip-99.0-py3-none-any.whl", "a") as wheel:
        wheel.writestr("pip/__init__.py", "")
        wheel.writestr("pip/__main__.py", NEWER)
    shelf = PackageFolder(tmp_path)
    assert shelf.ensure("ann.a", wanted("nk_low")) == {"nk-low": "1.0"}
    assert seen.read_text() == "the newer pip ran\n" * 2
    shelf.forget("ann.a")
    assert shelf.ensure("ann.a", wanted("nk_low")) == {"nk-low": "1.0"}
    assert seen.read_text() == "the newer pip ran\n" * 4


@pytest.mark.long
@pytest.mark.parametrize(
    ("said", "why", "remedy"),
    [
        ("", "nk_none, and the package index has nothing that fits as a wheel", "correct its name"),
        (
            UNREACHABLE,
            "WARNING: Retrying: NewConnectionError",
            "HTTPS_PROXY, or another index with NEKRO_PLUGIN__PACKAGE_INDEX",
        ),
        ("OSError: [Errno 28] No space left on device", "the disk is full", "make room"),
        (
            "a\nb\nERROR: something new " + "x" * 500 + "\nhint: c",
            "ann.a needs nk_none: pip failed: ERROR: something new xxx",
            "an environment of its own",
        ),
    ],
)
def test_a_failure_of_pip_is_reported_in_three_lines(
    index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    why: str,
    remedy: str,
) -> None:
    if said:
        replace_pip(tmp_path / "failing", monkeypatch, f"raise SystemExit({said!r})")
    with pytest.raises(PackagesRefused) as refused:
        PackageFolder(tmp_path).ensure("ann.a", wanted("nk_none"))
    first, second, third = str(refused.value).splitlines()
    assert first == "the packages for ann.a cannot be installed:"
    assert why in second
    assert len(second) < 350
    assert remedy in third
