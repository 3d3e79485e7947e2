"""Runs `tests.console.serve` as a separate process, because NiceGUI's pages are global."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx

from tests.peers.ports import free_port


@asynccontextmanager
async def running_console(
    folder: Path, program: str = "tests.console.serve", *, data: Sequence[str] = ()
) -> AsyncIterator[str]:
    """Start a console and return its address. Anybody on this machine may open the console; with
    ``tests.console.serve_site`` it has logins. ``data`` names the pages for which the bot has
    data. If ``data`` is empty, the bot has data for all pages."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", program, str(folder), str(port), *data]
    log = (folder / "console.log").open("wb")
    process = await anyio.open_process(
        command, stdout=log, stderr=log, env={**os.environ, "NICEGUI_SCREEN_TEST_PORT": ""}
    )
    try:
        async with httpx.AsyncClient(trust_env=False) as client:
            with anyio.fail_after(180):
                while True:
                    try:
                        await client.get(f"{address}/api/v1/operator/openapi.json")
                        break
                    except httpx.TransportError:
                        assert process.returncode is None, (folder / "console.log").read_text()
                        await anyio.sleep(0.05)
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(10) as waiting:
            await process.wait()
        if waiting.cancelled_caught:
            process.kill()
            await process.wait()
        log.close()
