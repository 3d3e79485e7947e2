"""Measures the baseline for the whole bot: a bare NoneBot that echoes (`echo_bot.py`)."""

import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from tests.e2e.bot_process import ROOT
from tests.peers.onebot_v11 import OneBotPeer


async def bare(folder: Path, rounds: int, flood: int) -> tuple[float, list[float], float, float]:
    """Measure the echo bot. Returns the seconds of its start, the milliseconds of each echo, the
    messages per second, and the memory in MiB."""
    async with echo_bot(folder) as (url, started, pid), OneBotPeer("20002", None, url) as peer:
        await peer.wait_connected()
        mib = resident_mib(pid)
        echo_ms = []
        for number in range(rounds):
            said = time.monotonic()
            await peer.say_in_group(30003, 10001, f"question {number}")
            echo_ms.append(((await peer.next_send()).at - said) * 1000)
        began = time.perf_counter()
        for number in range(flood):
            await peer.say_in_group(40000 + number % 50, 10001, f"small talk {number}")
        await peer.until(lambda: len(peer.sends) >= rounds + flood, 60)
        return started, echo_ms, flood / (time.perf_counter() - began), mib


@asynccontextmanager
async def echo_bot(folder: Path) -> AsyncIterator[tuple[str, float, int]]:
    """Run the echo bot. Yields its OneBot address, the seconds of its start, and its process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "bench" / "echo_bot.py"),
        cwd=folder,
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        with anyio.fail_after(30):
            while True:
                with anyio.move_on_after(1):
                    try:
                        stream = await anyio.connect_tcp("127.0.0.1", port)
                    except OSError:
                        await anyio.sleep(0.01)
                    else:
                        await stream.aclose()
                        break
        yield f"ws://127.0.0.1:{port}/onebot/v11/ws", time.perf_counter() - began, process.pid
    finally:
        process.terminate()
        await process.wait()


def resident_mib(pid: int) -> float:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no resident memory")
