"""Measures how much memory idle boxes use, and how soon they run the next code of their chat."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import anyio

from bench.figure import Figure, percentiles
from nekro_core.sandbox.box import (
    Answer,
    Box,
    BoxSpec,
    CallReturn,
    GuestCall,
    GuestFunction,
    StopReason,
)
from nekro_core.sandbox.jail.backend import JailBackend
from tests.e2e.bot_process import running_bot
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import Answer as Said
from tests.peers.scripted_model import Asked, ScriptedModelServer

BOXES = 40
"""How many boxes run code. Processes share the pages of the interpreter, so with fewer boxes the
share of each process would be larger than in a busy bot."""
REST_S = 1.0
"""Seconds after the end of a run. By then a box must have released the memory of the run."""
SETTLED_S = 3.0
"""Seconds after the last message. By then the bot must have reduced the memory of idle boxes to its
limit."""
CHATS = 100
ROUNDS = 10
TOKEN = "bench-token"
PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable


async def of_boxes(
    backend: JailBackend,
    functions: list[GuestFunction],
    fork: tuple[str, float],
    long_rest_s: float,
) -> list[Figure]:
    """Measure how much memory boxes use that have run code, and how soon they run code again: one
    second after their first run, and then after a rest of ``long_rest_s`` plus two seconds.
    ``fork`` is the baseline of these times: its name and its milliseconds."""
    boxes = [await backend.create(BoxSpec()) for _ in range(BOXES)]
    for box in boxes:
        await first_call(box, functions)
    await anyio.sleep(REST_S)
    soon = pss(pid for box in boxes for pid in backend.processes_of(box)) / BOXES
    samples = [await first_call(box, functions) for box in boxes]
    await anyio.sleep(long_rest_s + 2)
    late = pss(pid for box in boxes for pid in backend.processes_of(box)) / BOXES
    late_samples = []
    for box in boxes[:20]:
        late_samples.append(await first_call(box, functions))
        # After a run, the box prepares the next run, which takes processor time.
        await anyio.sleep(0.1)
    for box in boxes:
        await box.destroy()
    bare = await anyio.to_thread.run_sync(bare_interpreters)
    return [
        Figure(
            name="a kept box, one second after its run", unit="MB", p50=soon / 2**20,
            floor=bare / 2**20, floor_name="bare interpreter", target=8,
        ),
        _latency("its next run, code handed over to first tool call", samples, fork),
        Figure(
            name="idle boxes per GB", unit="boxes", p50=2**30 / late, floor=2**30 / bare,
            floor_name="bare interpreters", target=120, more_is_better=True,
        ),
        _latency("the next run after a long rest", late_samples, fork),
    ]  # fmt: skip


def _latency(name: str, samples: list[float], fork: tuple[str, float]) -> Figure:
    p50, p99 = percentiles(samples)
    return Figure(
        name=name, unit="ms", p50=p50, p99=p99, floor=fork[1], floor_name=fork[0], target=10
    )


async def of_the_bot() -> list[Figure]:
    """Measure the memory of the bot's process and of its boxes, after the bot answered many groups
    with code."""
    with tempfile.TemporaryDirectory() as folder:
        async with ScriptedModelServer(_answer) as model:
            settings = {
                "NEKRO_LLM__BASE_URL": model.base_url,
                "NEKRO_LLM__MODEL": "scripted",
                "NEKRO_TRIGGER__DEBOUNCE_S": "0",
                "NEKRO_TRIGGER__BURST_TURNS": "0",
                "NEKRO_TRIGGER__HOUR_TURNS": "0",
                "NEKRO_DELIVERY__SENDS_PER_WINDOW": "100000",
                "ONEBOT_ACCESS_TOKEN": TOKEN,
                "LOG_LEVEL": "WARNING",
            }
            async with running_bot(Path(folder), **settings) as bot:
                assert bot.process is not None
                pid = bot.process.pid
                async with OneBotPeer("20002", TOKEN, bot.onebot_url) as peer:
                    await peer.wait_connected()
                    for number in range(ROUNDS):
                        for group in range(CHATS):
                            said = f"question {number}"
                            await peer.say_in_group(60000 + group, 10001, said, at_me=True)
                        wanted = (number + 1) * CHATS
                        await peer.until(lambda: len(peer.sends) >= wanted, 120)  # noqa: B023
                    await anyio.sleep(SETTLED_S)
                    launchers = [one for one in children(pid) if _name(one) == "bwrap"]
                    boxes = pss(each for one in launchers for each in descendants(one)) / 2**20
                    itself = pss([pid]) / 2**20
    bare = await anyio.to_thread.run_sync(bare_interpreters)
    many = f"after {CHATS * ROUNDS:,} messages in {CHATS} chats"
    return [
        Figure(name=f"the bot itself {many}", unit="MB", p50=itself),
        Figure(
            name=f"its {len(launchers)} boxes, the pool's too", unit="MB", p50=boxes,
            floor=len(launchers) * bare / 2**20, floor_name="as many bare interpreters", target=256,
        ),
    ]  # fmt: skip


def _answer(_: Asked) -> Said:
    return Said(chunks=['```python\nsend_channel_message("an answer")\n```'])


async def first_call(
    box: Box,
    functions: list[GuestFunction],
    source: str = "tool_1('hello')\n",
    *,
    keep_globals: bool = False,
) -> float:
    """Milliseconds from sending code to the box until its first tool call."""
    called: list[float] = []

    async def handler(_: GuestCall) -> Answer:
        called.append(time.perf_counter())
        return CallReturn(None)

    began = time.perf_counter()
    run = await box.start_run(functions, handler, keep_globals=keep_globals)
    await run.feed(source, 1)
    result = await run.finish()
    assert result.stop is StopReason.FINISHED, result
    return (called[0] - began) * 1000


def pss(pids: Iterable[int]) -> int:
    """The memory of processes in bytes. If several processes map a page, each of them counts only
    its share of the page (PSS)."""
    found = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                found += int(line.split()[1]) * 1024
    return found


def bare_interpreters() -> int:
    """The memory of one idle interpreter, while `BOXES` of them run."""
    many = [
        subprocess.Popen(
            [PYTHON, "-I", "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        )
        for _ in range(BOXES)
    ]
    try:
        time.sleep(1)
        return pss(one.pid for one in many) // BOXES
    finally:
        for one in many:
            one.communicate()


def children(pid: int) -> list[int]:
    """The child processes of all threads of a process."""
    return [
        int(child)
        for thread in Path(f"/proc/{pid}/task").iterdir()
        for child in (thread / "children").read_text().split()
    ]


def descendants(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    for one in found:
        found += children(one)
    return found


def parent(pid: int) -> int:
    """The parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()
