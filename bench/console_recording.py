"""What it costs a turn to record what the model was shown. Two bots run side by side: one records,
the other does not. Short blocks of turns alternate, so that a slow moment of the machine weighs on
both."""

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
"""The prompt gets longer with each turn, until it has all records that it may have."""
_PERCENT = 2.0


async def recording_figures(*, few: bool) -> list[Figure]:
    """The figures of this module. A turn's time is what the bot itself stored about it, from its
    begin to its end; its processor time is that of the process."""
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
"""The samples of each block of the recording bot, and of the other one."""


def _compared(name: str, blocks: _Blocks, *, target: bool = False) -> Figure:
    """Compare each block with the one beside it, which had the same load of the machine. The p50 is
    the baseline's median and the median of the blocks' differences."""
    recorded, plain = ([statistics.median(block) for block in which] for which in blocks)
    differences = [now - was for now, was in zip(recorded, plain, strict=True)]
    was, more = statistics.median(plain), statistics.median(differences)
    # A quarter of the differences is above the third quartile; 1.35 standard deviations lie between
    # the quartiles of a normal distribution, and a median is less certain than a mean.
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
    """The milliseconds of each turn after one, by blocks."""
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
