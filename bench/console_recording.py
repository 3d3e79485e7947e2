"""Measures how much longer a turn takes if the bot records what the model was shown. Two bots run
side by side: one records, the other does not. Short blocks of turns of the two bots alternate, so
that a slow moment of the machine affects both."""

import sqlite3
import statistics
import tempfile
from contextlib import AsyncExitStack, closing
from pathlib import Path

from bench.console_bot import MeasuredBot, measured_bot
from bench.figure import Figure

_BLOCKS, _FEW_BLOCKS = 80, 4
_TURNS = 10
_WARM_TURNS, _FEW_WARM_TURNS = 120, 10
"""How many turns run before the measurement, and how many before a short one. Each turn makes the
next prompt longer, until the prompt has the maximum number of records."""
_PERCENT = 2.0


async def recording_figures(*, few: bool) -> list[Figure]:
    """Return the figures of this module. The bot itself stores how long a turn took from its begin
    to its end. The processor time of a turn is read from the process."""
    with tempfile.TemporaryDirectory(prefix="nekro-bench-") as base:
        async with AsyncExitStack() as stack:
            bots: list[MeasuredBot] = []
            for number, program in enumerate(("bot.py", "bench/unrecorded_bot.py")):
                (folder := Path(base) / str(number)).mkdir()
                bots.append(await stack.enter_async_context(measured_bot(folder, program)))
            for bot in bots:
                await bot.turns(_FEW_WARM_TURNS if few else _WARM_TURNS)
            first = [_newest_turn(bot) for bot in bots]
            answered: _Blocks = ([], [])
            used: _Blocks = ([], [])
            for block in range(_FEW_BLOCKS if few else _BLOCKS):
                for which in (0, 1) if block % 2 else (1, 0):
                    before = _processor_ms(bots[which].pid)
                    answered[which].append(await bots[which].turns(_TURNS))
                    spent = (_processor_ms(bots[which].pid) - before) / _TURNS
                    used[which].append([spent])
            took: _Blocks = (_durations(bots[0], first[0]), _durations(bots[1], first[1]))
    return [
        _compared("a recorded turn, processor time", used, target=True),
        _compared("a recorded turn, begin to end", took, target=True),
        _compared("a question until its answer, recorded", answered),
    ]


_Blocks = tuple[list[list[float]], list[list[float]]]
"""The samples of each block: first of the bot that records, then of the other one."""


def _compared(name: str, blocks: _Blocks, *, target: bool = False) -> Figure:
    """Compare each block with the block next to it, for which the machine was equally busy. The p50
    is the baseline's median plus the median of the differences between the blocks."""
    recorded, plain = ([statistics.median(block) for block in which] for which in blocks)
    differences = [now - was for now, was in zip(recorded, plain, strict=True)]
    was, more = statistics.median(plain), statistics.median(differences)
    # The standard error is computed from the quartiles. In a normal distribution, the quartiles
    # are 1.35 standard deviations apart. The standard error of a median is 1.25 times that of a
    # mean.
    low, _, high = statistics.quantiles(differences, n=4)
    error = 1.25 * (high - low) / 1.35 / len(differences) ** 0.5
    return Figure(
        name=name, unit="ms", p50=was + more, floor=was,
        floor_name=f"not recorded; {more / was:+.1%} with a standard error of {error / was:.1%}",
        target=was * (1 + _PERCENT / 100) if target else None,
    )  # fmt: skip


def _newest_turn(bot: MeasuredBot) -> int:
    with closing(sqlite3.connect(bot.process.data / "nekro.sqlite3")) as database:
        (newest,) = database.execute("SELECT MAX(id) FROM turns").fetchone()
    return int(newest)


def _durations(bot: MeasuredBot, after: int) -> list[list[float]]:
    """Return the milliseconds of each turn after the turn ``after``, grouped by blocks."""
    with closing(sqlite3.connect(bot.process.data / "nekro.sqlite3")) as database:
        rows = database.execute(
            "SELECT ended - started FROM turns WHERE id > ? ORDER BY id", (after,)
        ).fetchall()
    times = [seconds * 1e3 for (seconds,) in rows]
    return [times[at : at + _TURNS] for at in range(0, len(times), _TURNS)]


def _processor_ms(pid: int) -> float:
    """The processor time of the threads of a process, without its children."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text("utf-8").split()[0]) for each in threads) / 1e6
