"""telegram-test-api as a process of the test's own."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

FOLDER = Path(__file__).parent


def missing() -> str:
    """Why it cannot be had here; empty where it can."""
    if shutil.which("node") is None:
        return "no node on this machine"
    if not (FOLDER / "node_modules" / "telegram-test-api").is_dir():
        return "telegram-test-api is not installed: npm install in tests/peers/telegram"
    return ""


@asynccontextmanager
async def telegram_test_api() -> AsyncIterator[str]:
    """Its address while it runs."""
    process = await asyncio.create_subprocess_exec(
        "node", "server.js", cwd=FOLDER, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), 30)
        yield line.decode().strip()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
