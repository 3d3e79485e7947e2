"""Nekro Agent's environment always has some packages. A plugin need not name them. The framework
itself is never fetched."""

import io
import os
from pathlib import Path

import pytest

from nekro_core.cli.plugin_kit.check import check
from nekro_core.plugins.installation.bot_follower import InstallRefused
from nekro_core.plugins.installation.install import Installer
from nekro_core.plugins.installation.packages import plugin_needs
from nekro_core.plugins.installation.sources import SourceRefused, parse, plugin_of
from nekro_core.plugins.packages import PackageFolder
from nekro_core.plugins.packages.own_environment import bot_version
from nekro_core.testing import Bot
from tests.plugins.packages.wheels import make_wheel, only_these

CODE = """\
from typing import TYPE_CHECKING

import json5
from nekro_agent.api.plugin import NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx

from . import toml

if TYPE_CHECKING:
    import pandas

plugin = NekroPlugin("Reader", "reader", "Reads.", "1.0", "ann", "")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "version", "Say a version.")
async def version(_ctx: AgentCtx) -> str:
    return json5.VERSION + toml.OWN
"""
PROJECT = """\
[project]
name = "nekro-plugin-reader"
version = "1.0"
dependencies = [
    "nekro-agent>=99.0.0", "nonebot2[fastapi]>=2.2,<2.3", "nonebot-adapter-onebot",
    "uvicorn[standard]", "httpx",
]
"""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip finds only the packages that a test puts here. Fetching any other package fails."""
    only_these(tmp_path / "index", monkeypatch)
    return tmp_path / "index"


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    place = tmp_path / "work" / "reader"
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(CODE)
    (place / "toml.py").write_text('OWN = ", mine"')
    (place / "pyproject.toml").write_text(PROJECT)
    return place


def installer(data: Path, said: list[str]) -> Installer:
    return Installer(data_dir=data, shelf=PackageFolder(data), ask=lambda _: True, say=said.append)


def test_the_framework_and_its_own_modules_are_not_packages_to_fetch(reader: Path) -> None:
    needs = plugin_needs(reader, "local/reader")
    assert [str(each.requirement) for each in needs.declared] == [
        "uvicorn[standard]",
        "httpx",
    ]
    (other,) = needs.other_versions
    assert other == (
        f"it asks for nonebot2[fastapi]<2.3,>=2.2; the bot itself has {bot_version('nonebot2')}, "
        "and loads it all the same"
    )
    assert [(each.module, each.where) for each in needs.undeclared] == [("json5", "__init__.py:3")]
    shelf = PackageFolder(reader / "data")
    assert all(shelf.has(each.requirement) for each in needs.declared)


def test_names_that_are_always_available_are_not_packages_to_fetch(reader: Path) -> None:
    (reader / "pyproject.toml").unlink()
    (reader / "requirements.txt").write_text(
        "nekro-agent @ git+https://host/nekro.git\nNekro_Agent (>=2.0,<3)\npython>=3.10\n"
        "asyncio\nsqlite3\ntyping>=3.7\nhttpx\n"
    )
    needs = plugin_needs(reader, "local/reader")
    assert [str(each.requirement) for each in needs.declared] == ["httpx"]


def test_packages_of_nekro_agents_environment_are_not_added_for_a_plugin_of_nekro_core(
    reader: Path,
) -> None:
    (reader / "__init__.py").write_text("import json5\nfrom nekro_core.api.plugin import *\n")
    assert plugin_needs(reader, "local/reader").undeclared == ()


def test_the_package_list_of_poetry_gives_the_packages_of_modules(reader: Path) -> None:
    (reader / "pyproject.toml").write_text(
        '[tool.poetry.dependencies]\npython = ">=3.9,<3.12"\nnekro-agent = "^2.0"\n'
        'nk-tunes = "^0.2"\nnever-imported = "*"\n'
    )
    (reader / "inner.py").write_text("def play():\n    import nk_tunes.player\n")
    found = plugin_needs(reader, "local/reader").undeclared
    assert [str(each.need.requirement) for each in found] == ["json5", "nk-tunes"]
    assert str(found[1]) == (
        "inner.py:2: it imports nk_tunes and names no package for it; its pyproject.toml has "
        "nk-tunes"
    )


@pytest.mark.slow
@pytest.mark.long
async def test_check_names_the_package_that_it_adds_for_an_import_and_fetches_it(
    reader: Path, index: Path, tmp_path: Path
) -> None:
    make_wheel(index, "json5", "0.10")
    out = io.StringIO()
    assert await check(reader, out) == 0, out.getvalue()
    _, offered, got, *_ = out.getvalue().splitlines()
    assert offered == (
        "__init__.py:3: it imports json5 and names no package for it; Nekro Agent's environment "
        "has json5: it is added"
    )
    assert got == "got json5 0.10"


@pytest.mark.slow
@pytest.mark.long
async def test_if_one_package_cannot_be_fetched_the_others_are_added(
    reader: Path, index: Path
) -> None:
    """The plugin did not name the package, so it may work without it."""
    make_wheel(index, "json5", "0.10")
    optional = "try:\n    import pandas\nexcept ImportError:\n    pandas = None\n"
    (reader / "__init__.py").write_text(optional + CODE)
    out = io.StringIO()
    assert await check(reader, out) == 0, out.getvalue()
    assert "not got: local/reader needs pandas, and the package index has no" in out.getvalue()
    assert "got json5 0.10" in out.getvalue()


@pytest.mark.long
def test_install_adds_the_package_and_the_bot_finds_it(
    reader: Path, index: Path, tmp_path: Path
) -> None:
    make_wheel(index, "json5", "0.10")
    data, said = tmp_path / "data", list[str]()
    assert installer(data, said).install(parse(str(reader))) == "local/reader"
    assert "  got json5 0.10" in said
    assert PackageFolder(data).needs["local/reader"][-1] == "json5"
    assert (data / "plugins" / "reader" / "pyproject.toml").read_text() == PROJECT


@pytest.mark.long
async def test_a_bot_runs_the_installed_plugin(reader: Path, index: Path, tmp_path: Path) -> None:
    make_wheel(index, "json5", "0.10")
    data = tmp_path / "data"
    PackageFolder(data).ensure("local/reader", plugin_needs(reader, "local/reader").every)
    async with Bot.open(data, reader) as bot:
        assert await bot.call("version") == "0.10, mine"


@pytest.mark.slow
@pytest.mark.long
async def test_programs_that_a_plugin_starts_find_its_packages(
    reader: Path, index: Path, tmp_path: Path
) -> None:
    """A plugin may run pip at each load. This pip finds the packages too, so it does not change the
    bot's environment."""
    make_wheel(index, "json5", "0.10")
    make_wheel(index, "nk_more", "1.0")
    pip = "subprocess.run([sys.executable, '-m', 'pip', 'install', 'json5'], check=True)"
    more = "from nekro_agent.api.plugin import dynamic_import_pkg\ndynamic_import_pkg('nk_more')\n"
    (reader / "__init__.py").write_text(f"import subprocess, sys\n{pip}\n{more}{CODE}")
    data, before = tmp_path / "data", os.environ.get("PYTHONPATH")
    PackageFolder(data).ensure("local/reader", plugin_needs(reader, "local/reader").every)
    async with Bot.open(data, reader) as bot:
        assert await bot.call("version") == "0.10, mine"
        assert str(data / "plugin_packages" / "2") in os.environ["PYTHONPATH"].split(":")
    assert PackageFolder(data).held == {"json5": "0.10", "nk-more": "1.0"}
    assert not bot_version("json5")
    assert os.environ.get("PYTHONPATH") == before


@pytest.mark.slow
@pytest.mark.long
def test_a_plugin_that_cannot_be_loaded_is_not_installed(
    reader: Path, index: Path, tmp_path: Path
) -> None:
    data, said = tmp_path / "data", list[str]()
    make_wheel(index, "json5", "0.10")
    (reader / "__init__.py").write_text(f"{CODE}\nfrom nk_nowhere import x\n")
    with pytest.raises(InstallRefused, match=r"--force.*\n.*\n.*reader/__init__.py:19: ModuleNot"):
        installer(data, said).install(parse(str(reader)))
    assert not (data / "plugins").exists()
    assert PackageFolder(data).needs == {}
    assert installer(data, said).install(parse(str(reader)), force=True) == "local/reader"


RUNS_PIP = """\
try:
    import nk_late
except ImportError:
    import os, sys
    os.system(f"{sys.executable} -m pip install nk_late")
    import nk_late
"""


@pytest.mark.long
def test_install_fetches_the_packages_that_the_plugin_would_install_with_pip(
    reader: Path, index: Path, tmp_path: Path
) -> None:
    make_wheel(index, "json5", "0.10")
    make_wheel(index, "nk_late", "3.0")
    (reader / "__init__.py").write_text(RUNS_PIP + CODE)
    data, said = tmp_path / "data", list[str]()
    installer(data, said).install(parse(str(reader)))
    assert "  it runs pip for nk_late: it is added" in said
    assert "  got nk-late 3.0" in said
    assert not any("while it was loaded" in line for line in said)


@pytest.fixture
def repository(reader: Path) -> Path:
    """A repository as authors publish it: the plugin is in a folder, and the package lists are
    beside it."""
    place = reader.parent / "nekro-plugin-reader"
    (place / "tests").mkdir(parents=True)
    (place / "tests" / "test_reader.py").write_text("from reader import plugin\n")
    (place / "pyproject.toml").write_text(
        '[project]\nname = "reader"\nversion = "1"\ndependencies = ["nekro-agent", "nk-more"]\n'
    )
    (reader / "pyproject.toml").unlink()
    reader.rename(place / "reader")
    return place


@pytest.mark.slow
@pytest.mark.long
async def test_check_and_install_find_the_plugin_in_a_repository_and_its_packages(
    repository: Path, index: Path, tmp_path: Path
) -> None:
    make_wheel(index, "json5", "0.10")
    make_wheel(index, "nk_more", "1.0")
    out = io.StringIO()
    assert await check(repository, out) == 0, out.getvalue()
    assert "got nk-more 1.0" in out.getvalue()
    data, said = tmp_path / "data", list[str]()
    assert installer(data, said).install(parse(str(repository))) == "local/reader"
    assert PackageFolder(data).needs["local/reader"] == ["nk-more", "json5"]
    assert (data / "plugins" / "reader" / "pyproject.toml").is_file()


def test_a_folder_with_two_plugins_needs_the_name_of_one(repository: Path) -> None:
    (repository / "other").mkdir()
    (repository / "other" / "__init__.py").touch()
    with pytest.raises(SourceRefused, match=r"several plugins in it \(other, reader\)"):
        plugin_of(repository)
