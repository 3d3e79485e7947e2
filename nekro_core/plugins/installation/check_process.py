"""Runs a check of a plugin in a confined process, so that the plugin cannot change the machine."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

import anyio
import msgspec
from anyio.abc import Process

from nekro_core.plugins.installation.check_order import (
    DATA,
    PROGRAM,
    RESULT,
    CheckOrder,
    CheckResult,
)
from nekro_core.plugins.installation.files import MOST_BYTES, NO_PART

_LAST_LINES = 3
_OUTPUT = "output.log"
_MOST_SAID = 100_000
_OWN_CODE = str(Path(__file__).parents[3])


class CheckProcess:
    """A process that waits for an order. Make it with `open`. ``folder`` is its throw-away
    folder."""

    def __init__(self, folder: Path, process: Process) -> None:
        self.folder = folder
        self._process = process

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[Self]:
        """Start a process. It imports the bot while its order is prepared. It is ended, with all
        programs that it started, when the block is left."""
        with tempfile.TemporaryDirectory(prefix="nekro-check-", ignore_cleanup_errors=True) as name:
            folder = _laid_out(name)
            with (folder / _OUTPUT).open("wb") as output:
                process = await anyio.open_process(
                    [sys.executable, "-m", *PROGRAM, name],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=(folder / DATA).parent,
                    env=_environment(folder),
                    start_new_session=True,
                )
            try:
                yield cls(folder, process)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                with anyio.CancelScope(shield=True):
                    await process.aclose()

    @property
    def data_dir(self) -> Path:
        """The data folder of the bot that runs in this process and loads the plugin."""
        return self.folder / DATA

    def copy(self, plugin: Path, name: str) -> Path:
        """Copy a plugin into the throw-away folder, under the name by which it is imported. If the
        plugin writes beside its code, only the copy changes. If the plugin is too large, return
        ``plugin`` itself; the plugin then cannot write beside its code. Raises `OSError`."""
        target = self.folder / "plugin" / name
        if plugin.is_file():
            return Path(shutil.copyfile(plugin, target.with_name(f"{name}.py")))
        if _is_large(plugin):
            return plugin.resolve()
        left_out = shutil.ignore_patterns(*NO_PART)
        shutil.copytree(plugin, target, ignore=left_out, ignore_dangling_symlinks=True)
        return target

    async def check(self, order: CheckOrder, limit_s: float) -> CheckResult:
        """Check a plugin within ``limit_s`` seconds. If the process ends early or takes too long,
        the result says so."""
        assert self._process.stdin is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._process.stdin.send(msgspec.json.encode(order) + b"\n")
        with anyio.move_on_after(limit_s) as limit:
            await self._process.wait()
        if limit.cancelled_caught:
            return self._failed(f"the check was ended after {limit_s:g} s")
        try:
            return msgspec.json.decode((self.folder / RESULT).read_bytes(), type=CheckResult)
        except (OSError, msgspec.MsgspecError):
            status = self._process.returncode
            return self._failed(f"the process that checked it ended with status {status}")

    def said(self) -> str:
        """Return what the plugin and the check's bot have printed and logged, at most the last
        100,000 bytes."""
        with (self.folder / _OUTPUT).open("rb") as file:
            file.seek(max(0, (self.folder / _OUTPUT).stat().st_size - _MOST_SAID))
            return file.read().decode(errors="replace")

    def _failed(self, text: str) -> CheckResult:
        last = [line for line in self.said().splitlines() if line.strip()][-_LAST_LINES:]
        report = "\n".join([f"{text}; the last that it wrote:" if last else text, *last])
        return CheckResult(status=1, report=f"{report}\n", problems=report)


def _laid_out(name: str) -> Path:
    folder = Path(name).resolve()
    for inner in (DATA, "home", "tmp", "plugin"):
        (folder / inner).mkdir(parents=True)
    return folder


def _environment(folder: Path) -> Mapping[str, str]:
    """Return this process's environment variables without the bot's settings, with a home folder
    below the throw-away folder."""
    gone = ("NEKRO_", "XDG_", "PYTHONUSERBASE", "PYTHONSTARTUP")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(gone)}
    own = Path("~/.config/pip/pip.conf").expanduser()
    if own.is_file():
        kept.setdefault("PIP_CONFIG_FILE", str(own))
    temporary = str(folder / "tmp")
    return {
        **kept,
        **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), temporary),
        "HOME": str(folder / "home"),
        "PYTHONPATH": os.pathsep.join([_OWN_CODE, *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


def _is_large(plugin: Path) -> bool:
    size = 0
    for folder, inner, files in os.walk(plugin):
        inner[:] = [name for name in inner if name not in NO_PART]
        for file in files:
            with suppress(OSError):
                size += Path(folder, file).stat().st_size
            if size > MOST_BYTES:
                return True
    return False
