"""The packages of all plugins are in one folder, which comes after the bot's own packages."""

import importlib
import sys
from pathlib import Path

import pydantic
import pytest

from nekro_core.plugins.packages import PackageFolder, PackagesRefused
from nekro_core.plugins.packages.requirements import PluginRequirement, parse_requirement
from tests.plugins.packages.wheels import make_wheel, only_these


def needs(plugin: str, *texts: str) -> list[PluginRequirement]:
    return [PluginRequirement(parse_requirement(text), plugin) for text in texts]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    only_these(folder, monkeypatch)
    make_wheel(folder, "nk_low", "1.0")
    make_wheel(folder, "nk_low", "2.0")
    make_wheel(folder, "nk_high", "1.0", needs=["nk_low<2"])
    make_wheel(folder, "nk_old", "1.0", needs=["pydantic<2"])
    return folder


@pytest.fixture
def packages(tmp_path: Path, index: Path) -> PackageFolder:
    return PackageFolder(tmp_path / "data")


@pytest.mark.long
def test_the_package_folder_is_last_on_the_path(packages: PackageFolder) -> None:
    assert not packages.has(parse_requirement("nk_low"))
    assert packages.ensure("ann.a", needs("ann.a", "nk_low", "pydantic>=2")) == {"nk-low": "2.0"}
    assert packages.has(parse_requirement("nk_low>1"))
    assert packages.has(parse_requirement("pydantic>=2"))
    assert not packages.has(parse_requirement("nk_low<2"))
    assert packages.needs == {"ann.a": ["nk_low", "pydantic>=2"]}
    before = list(sys.path)
    with packages.on_path():
        assert sys.path[:-1] == before
        assert sorted(path.name for path in Path(sys.path[-1]).glob("*.py")) == ["nk_low.py"]
    assert sys.path == before


def test_an_unreadable_package_list_does_not_stop_the_bot(tmp_path: Path) -> None:
    packages = PackageFolder(tmp_path)
    (tmp_path / "plugin_packages").mkdir()
    (tmp_path / "plugin_packages" / "shelf.json").write_text("{")
    before = list(sys.path)
    with packages.on_path():
        assert sys.path == before
    with pytest.raises(PackagesRefused, match="remove the folder"):
        packages.ensure("ann.a", needs("ann.a", "httpx"))


@pytest.mark.long
def test_plugins_share_one_copy_and_the_bots_packages_are_not_copied(
    packages: PackageFolder, tmp_path: Path
) -> None:
    assert packages.ensure("ann.a", needs("ann.a", "nk_low", "pydantic>=2")) == {"nk-low": "2.0"}
    assert packages.ensure("bob.b", needs("bob.b", "nk_high")) == {
        "nk-high": "1.0",
        "nk-low": "1.0",
    }
    assert packages.needs == {"ann.a": ["nk_low", "pydantic>=2"], "bob.b": ["nk_high"]}
    before = list(sys.path)
    with packages.on_path():
        (added,) = [path for path in sys.path if path not in before]
        assert sys.path[-1] == added
        low = importlib.import_module("nk_low")
        assert low.VERSION == "1.0"
        assert {path.name for path in Path(added).iterdir() if path.suffix == ".py"} == {
            "nk_low.py",
            "nk_high.py",
        }
        # Another process removes a plugin. The imported version stays, and this is reported.
        PackageFolder(tmp_path / "data").forget("bob.b")
        (stale,) = packages.refresh()
        assert str(stale) == "nk-low 1.0 runs, 2.0 is there: it changes at the next start"
        assert importlib.import_module("nk_low") is low
        packages.forget("ann.a")
        assert packages.held == {}
    assert sys.path == before
    with packages.on_path():
        assert sys.path == before
        assert list((tmp_path / "data" / "plugin_packages").glob("[0-9]*")) == []
    del sys.modules["nk_low"]


@pytest.mark.long
def test_conflicting_requirements_are_refused_with_both_requesters(packages: PackageFolder) -> None:
    packages.ensure("ann.a", needs("ann.a", "nk_low==2.0"))
    version = pydantic.VERSION
    for wanted, message in {
        "nk_low==1.0": r"ann\.a needs nk_low==2\.0; bob\.b needs nk_low==1\.0|"
        r"bob\.b needs nk_low==1\.0; ann\.a needs nk_low==2\.0",
        "nk_high": r"ann\.a needs nk_low==2\.0; bob\.b needs nk_high, and nk-high 1\.0 needs "
        r"nk[-_]low<2",
        "pydantic<2": rf"bob\.b needs pydantic<2, and the bot itself has pydantic {version}",
        "nk_old": rf"bob\.b needs nk_old, and nk-old 1\.0 needs pydantic<2.*the bot itself has "
        rf"pydantic {version}",
        "nk_none>3": r"bob\.b needs nk_none>3, and the package index has nothing that fits as a "
        r"wheel \(building is off",
    }.items():
        with pytest.raises(PackagesRefused, match=message):
            packages.ensure("bob.b", needs("bob.b", wanted))
    assert packages.needs == {"ann.a": ["nk_low==2.0"]}
    assert packages.held == {"nk-low": "2.0"}
