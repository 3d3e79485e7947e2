"""A check runs a plugin in a process that cannot change anything, and reports what the plugin
tried."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from nekro_core.cli.plugin_kit.check import check
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.installation.attempts import pip_packages
from nekro_core.plugins.packages.own_environment import bot_version
from tests.plugins.packages.wheels import make_wheel, only_these
from tests.plugins.world import HEADER


async def checked(path: Path, **settings: float) -> tuple[int, str]:
    out = io.StringIO()
    status = await check(path, out, PluginSettings(**settings))
    return status, out.getvalue()


def plugin(folder: Path, before: str, *, name: str = "demo") -> Path:
    """A plugin in a folder of its own. ``before`` is the code at the top of its module."""
    place = folder / name
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(f"{before}\n{HEADER.format(name=name, author='ann')}")
    return place


RUNS_PIP = """
import subprocess, sys
try:
    import nk_wanted
except ImportError:
    subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "nk_wanted>=1"])
    import nk_wanted
"""


ALWAYS_RUNS_PIP = """
import subprocess, sys
subprocess.run([sys.executable, "-m", "pip", "install", "nk_wanted"], check=True)
import nk_wanted
"""
BY_A_SHELL = """
import os
os.system("pip3 install nk_wanted; echo done")
import nk_wanted
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "before",
    [
        RUNS_PIP,
        pytest.param(ALWAYS_RUNS_PIP, marks=pytest.mark.slow),
        pytest.param(BY_A_SHELL, marks=pytest.mark.slow),
    ],
)
async def test_a_plugin_that_runs_pip_gets_the_package_and_the_machine_is_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    only_these(tmp_path / "index", monkeypatch)
    make_wheel(tmp_path / "index", "nk_wanted", "1.0")
    place = plugin(tmp_path / "work", before)
    status, text = await checked(place)
    assert "it runs pip for nk_wanted" in text
    assert "got nk-wanted 1.0" in text
    assert status == 0, text
    assert text.startswith("it runs pip for nk_wanted")
    assert not bot_version("nk_wanted")


WRITES = """
import os, sqlite3
from pathlib import Path
tried = []
for place in ({outside!r}, "~/seen.txt", "data/seen.txt", str(Path(__file__).parent / "seen.txt")):
    try:
        Path(place).expanduser().parent.mkdir(parents=True, exist_ok=True)
        Path(place).expanduser().write_text("was here")
    except OSError as error:
        tried.append(str(error))
try:
    os.remove({kept!r})
except OSError:
    tried.append("kept")
"""


@pytest.mark.long
async def test_files_that_a_plugin_writes_while_it_loads_are_deleted_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, kept = tmp_path / "home", tmp_path / "kept.txt"
    home.mkdir()
    kept.write_text("mine")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    outside = tmp_path / "elsewhere" / "seen.txt"
    place = plugin(tmp_path / "work", WRITES.format(outside=str(outside), kept=str(kept)))
    status, text = await checked(place)
    assert status == 0, text
    assert sorted(each.name for each in tmp_path.rglob("*")) == sorted(
        ["home", "kept.txt", "work", "demo", "__init__.py"]
    )
    assert kept.read_text() == "mine"
    where = f"warning: {place}/__init__.py"
    assert f"{where}:7: while it was loaded: makes {outside.parent}" in text
    assert f"{where}:12: while it was loaded: removes {kept}" in text
    assert text.count("while it was loaded:") == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("import time\ntime.sleep(60)", "its import took over 1 s"),
        ("import os\nprint('last words')\nos._exit(3)", "ended with status 3"),
    ],
)
async def test_a_plugin_that_hangs_or_ends_the_process_fails_its_check(
    tmp_path: Path, before: str, told: str
) -> None:
    status, text = await checked(plugin(tmp_path, before), import_s=1)
    assert (status, told in text) == (1, True), text
    assert ("last words" in text) == ("print" in before)


@pytest.mark.long
async def test_output_and_log_lines_of_a_checked_plugin_are_passed_on(
    tmp_path: Path,
) -> None:
    place = plugin(
        tmp_path, "from nekro_core.api.core import logger\nprint('hi')\nlogger.info('ho')"
    )
    said = io.StringIO()
    assert await check(place, io.StringIO(), said=said) == 0
    assert said.getvalue().startswith("hi\n")
    assert "local/demo" in said.getvalue()
    assert "ho" in said.getvalue()


@pytest.mark.long
async def test_settings_of_the_bot_do_not_reach_a_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a check used the operator's database, it would write into it."""
    monkeypatch.setenv("NEKRO_DATABASE_URL", f"sqlite://{tmp_path}/operators.sqlite3")
    status, text = await checked(plugin(tmp_path / "work", ""))
    assert status == 0, text
    assert not (tmp_path / "operators.sqlite3").exists()


@pytest.mark.parametrize(
    ("command", "packages"),
    [
        ("python -m pip install a b>=2 -i https://host/simple", ["a", "b>=2"]),
        ("/usr/bin/pip3.11 install --upgrade -r needs.txt c", ["c"]),
        ("uv pip install --target there d[x]", ["d[x]"]),
        ("pip install ./folder git+https://host/x.git", []),
        ("pip list", []),
        ("apt install e", []),
        ("", []),
    ],
)
def test_the_packages_that_a_pip_command_names_are_found(command: str, packages: list[str]) -> None:
    assert pip_packages(command.split()) == packages


def test_audit_hooks_refuse_effects_where_the_kernel_cannot(tmp_path: Path) -> None:
    """Audit hooks cannot be removed, so the test runs in a separate process."""
    (tmp_path / "free").mkdir()
    (tmp_path / "plugin.py").write_text(
        "import subprocess\n"
        "for act in (lambda: open('/etc/nk', 'w'), lambda: subprocess.run(['true'])):\n"
        "    try:\n        act()\n    except PermissionError as error:\n        print(error)\n"
        "open(FREE, 'w').close()\n"
    )
    program = f"""
from pathlib import Path
from nekro_core.plugins.installation.attempts import AttemptLog
source, free = Path({str(tmp_path / "plugin.py")!r}), Path({str(tmp_path / "free")!r})
log = AttemptLog(source, free, refuse=True)
log.start()
exec(compile(source.read_text(), source, "exec"), {{"FREE": {str(tmp_path / "free" / "x")!r}}})
print([(each.text, Path(each.where).name) for each in log.found])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "a check lets no plugin do this: opens for writing /etc/nk",
        "a check lets no plugin do this: starts true",
        "[('opens for writing /etc/nk', 'plugin.py:2'), ('starts true', 'plugin.py:2')]",
    ]
    assert (tmp_path / "free" / "x").exists()
