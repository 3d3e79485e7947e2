"""Measures how long operators wait for plugins: for the start of a bot with thirty plugins, and for
the check of one plugin.

The thirty plugins are those of the compatibility tests for Nekro Agent and MaiBot. They are written
like published plugins. Nothing is downloaded.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread

from bench.figure import Figure, percentiles
from nekro_core.cli.plugin_kit.new import write_new
from nekro_core.plugins.host.switches import read_list
from tests.e2e.bot_process import running_bot

THIRTY = 30
STARTS = 5
CHECKS = 5
_TESTS = Path(__file__).parents[1] / "tests" / "compat"
_FOLDERS = (
    "nekro_agent/plugins",
    "nekro_agent/fresh/plugins",
    "maibot/plugins",
    "maibot/fresh/plugins",
)
_NO_MODEL = {"NEKRO_LLM__BASE_URL": "http://127.0.0.1:9/v1", "NEKRO_LLM__MODEL": "none"}


async def figures() -> list[Figure]:
    """Return the time of a start with thirty plugins and without plugins, and the time of a
    check."""
    with_plugins, without = [], []
    for _ in range(STARTS):
        without.append(await _start([]))
        with_plugins.append(await _start([*_plugins()][:THIRTY]))
    checks, bare = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_new(folder, "dice_cup", "you")
        for _ in range(CHECKS):
            checks.append(await _run("-m", "nekro_core", "plugin", "check", "dice_cup", at=folder))
            bare.append(await _run("-c", "import nekro_core.testing", at=folder))
    name = f"start -> ready with {THIRTY} plugins"
    return [
        Figure.of(name, "s", with_plugins, percentiles(without)[0], "without plugins", 6.0),
        Figure.of(
            "nekro plugin check, nothing fetched",
            "s",
            checks,
            percentiles(bare)[0],
            "import of the bot",
            4.0,
        ),
    ]


def _plugins() -> Iterator[Path]:
    for folder in _FOLDERS:
        for path in sorted((_TESTS / folder).iterdir()):
            if path.suffix == ".py" or (path.is_dir() and not path.name.startswith("_")):
                yield path


async def _start(plugins: list[Path]) -> float:
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        (data / "plugins").mkdir(parents=True)
        for path in plugins:
            _copy(path, data / "plugins" / path.name)
        async with running_bot(Path(name), **_NO_MODEL) as bot:
            loaded = [each for each in read_list(data) if each.item.startswith("local/")]
            broken = [each.item for each in loaded if each.state != "loaded"]
            if len(loaded) != len(plugins) or broken:
                raise AssertionError(f"{len(loaded)} of {len(plugins)} plugins; broken: {broken}")
            return bot.started_in


def _copy(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(path, target)


async def _run(*arguments: str, at: Path) -> float:
    """Return how many seconds a command takes. Raises `subprocess.CalledProcessError` if it
    fails."""
    began = time.perf_counter()
    command = [sys.executable, *arguments]
    await anyio.to_thread.run_sync(
        lambda: subprocess.run(command, cwd=at, check=True, capture_output=True)
    )
    return time.perf_counter() - began
