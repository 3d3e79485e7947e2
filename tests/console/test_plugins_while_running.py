"""Plugins are changed over HTTP, and the bot is killed in the middle of an update."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.peers.ports import free_port
from tests.plugins.world import plugin_source

pytestmark = [pytest.mark.anyio, pytest.mark.long]

LONG_S = 60.0


def write(folder: Path, version: str, more: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    source = plugin_source("cup", "shake", more=more)
    (folder / "__init__.py").write_text(source.replace('"1", "ann"', f'"{version}", "ann"'))


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A bot with the operations' HTTP API. It is killed at the end of the block."""
    port = free_port()
    command = [sys.executable, "-m", "tests.console.serve", str(folder), str(port), "nothing"]
    with (folder / "bot.log").open("ab") as log:
        process = await anyio.open_process(
            command, stdout=log, stderr=log, env={**os.environ, "NICEGUI_SCREEN_TEST_PORT": ""}
        )
    base = f"http://127.0.0.1:{port}/api/v1/operator"
    try:
        async with httpx.AsyncClient(base_url=base, timeout=LONG_S, trust_env=False) as client:
            with anyio.fail_after(LONG_S):
                while True:
                    try:
                        await client.get("/openapi.json")
                        break
                    except httpx.TransportError:
                        assert process.returncode is None, (folder / "bot.log").read_text()
                        await anyio.sleep(0.05)
            yield client
    finally:
        process.send_signal(signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.aclose()


async def begin(web: httpx.AsyncClient, name: str, **parameters: Any) -> int:
    answer = await web.post(f"/plugins/{name}", json=parameters)
    assert answer.status_code == 202, answer.text
    number: int = answer.json()["job_id"]
    return number


async def job(web: httpx.AsyncClient, number: int) -> dict[str, Any]:
    found: dict[str, Any] = (await web.get("/jobs/one", params={"job_id": number})).json()["result"]
    return found


async def act(web: httpx.AsyncClient, name: str, **parameters: Any) -> dict[str, Any]:
    """Do a long action; returns its ended job."""
    number = await begin(web, name, **parameters)
    with anyio.fail_after(LONG_S):
        while (found := await job(web, number))["state"] == "running":
            await anyio.sleep(0.05)
    return found


async def shown(web: httpx.AsyncClient) -> dict[str, Any]:
    answer = await web.get("/plugins/one", params={"plugin": "ann.cup"})
    found: dict[str, Any] = answer.json()["result"]
    return found


async def test_a_killed_update_leaves_the_old_version(tmp_path: Path) -> None:
    cup = tmp_path / "work" / "cup"
    write(cup, "1")
    async with served(tmp_path) as web:
        looked = await act(web, "look", source=str(cup))
        assert looked["result"]["tools"] == ["shake"], looked
        assert looked["result"]["loads"] is True
        digest = looked["result"]["digest"]
        assert (await act(web, "install", source=str(cup), expected=digest))["state"] == "done"
        write(cup, "2")
        assert (await act(web, "update", plugin="ann.cup"))["state"] == "done"
        found = await shown(web)
        assert (found["version"], [each["version"] for each in found["versions"]]) == ("2", ["1"])

        write(cup, "3", more="\nraise RuntimeError('no luck')\n")
        failed = await act(web, "update", plugin="ann.cup")
        assert failed["state"] == "failed"
        assert "no luck" in failed["text"]

        write(cup, "4", more="\nimport time\ntime.sleep(15)\n")
        number = await begin(web, "update", plugin="ann.cup")
        with anyio.fail_after(LONG_S):
            while (await job(web, number))["text"] != "checking it in a confined process":
                await anyio.sleep(0.05)
        cancelled = await web.post("/jobs/cancel", json={"job_id": number})
        assert cancelled.json()["result"]["state"] == "cancelled"
        assert (await shown(web))["version"] == "2"
        number = await begin(web, "update", plugin="ann.cup")
        with anyio.fail_after(LONG_S):
            while (await job(web, number))["text"] != "checking it in a confined process":
                await anyio.sleep(0.05)
    async with served(tmp_path) as web:
        found = await shown(web)
        assert (found["version"], found["state"], found["changed"]) == ("2", "loaded", [])
        assert (await act(web, "roll_back", plugin="ann.cup"))["state"] == "done"
        assert (await shown(web))["version"] == "1"
        assert (await act(web, "remove", plugin="ann.cup", data=True))["state"] == "done"
        gone = await web.get("/plugins/one", params={"plugin": "ann.cup"})
        assert gone.status_code == 404
