"""Runs rounds of blows to fresh clusters, keeps the result of each round in a file, and prints what
all rounds have shown together."""

import json
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from tests.e2e.cluster.blows import SERVED_S
from tests.e2e.cluster.crash import ClusterLoad, ClusterOutcome, cluster_crash
from tests.e2e.forked_bots import bot_forker
from tests.peers.postgres import PostgresServer

_LONGEST = 10
"""The number of waits that are printed."""
_KEPT = 30
"""The number of longest waits that are kept of each round and kind of blow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """What one round has shown."""

    seed: int
    mode: str
    text: str
    blows: dict[str, int]
    """The number of blows of each kind."""
    waits: list[tuple[float, str, str]]
    """The longest waits: seconds, the kind of the blow, and a line for people."""
    medians: dict[str, float]
    """The median wait for each kind of blow."""
    slow: int
    """The number of waits that were too long."""
    unknown: list[str]
    faults: list[str]
    seconds: float

    @classmethod
    def of(cls, load: ClusterLoad, outcome: ClusterOutcome) -> Self:
        """The result of a round that has just ended."""
        kinds: dict[str, list[float]] = {}
        waits: list[tuple[float, str, str]] = []
        for wait in outcome.waits:
            of_kind = kinds.setdefault(wait.kind, [])
            if len(of_kind) < _KEPT:
                waits.append((wait.seconds, wait.kind, f"seed {load.seed}: {wait}"))
            of_kind.append(wait.seconds)
        return cls(
            seed=load.seed,
            mode=load.mode,
            text=str(outcome),
            blows=dict(Counter(blow.kind.value for blow in outcome.blows)),
            waits=waits,
            medians={kind: some[len(some) // 2] for kind, some in kinds.items()},
            slow=len(outcome.slow),
            unknown=outcome.unknown,
            faults=outcome.faults,
            seconds=outcome.seconds,
        )

    @classmethod
    def read(cls, file: Path) -> Self:
        """The result of an earlier round."""
        found = json.loads(file.read_text())
        return cls(
            **{**found, "waits": [(float(s), kind, line) for s, kind, line in found["waits"]]}
        )

    def write(self, file: Path) -> None:
        """Keep the result. A round that is cut off leaves no file."""
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False))
        fresh.replace(file)

    def __str__(self) -> str:
        return "\n  ".join([f"seed {self.seed}, {self.mode}: {self.text}", *self.faults])


def report(results: list[RoundResult]) -> str:
    """What all rounds have shown together: the blows, the longest waits with the kind of their
    blow, and what explains the calls of unknown outcome."""
    blows = sum((Counter(each.blows) for each in results), Counter[str]())
    waits = sorted((wait for each in results for wait in each.waits), reverse=True)
    lines = [f"the {_LONGEST} longest waits:", *(f"  {line}" for _, _, line in waits[:_LONGEST])]
    for kind in sorted({kind for _, kind, _ in waits}):
        longest = max(seconds for seconds, of, _ in waits if of == kind)
        medians = sorted(each.medians[kind] for each in results if kind in each.medians)
        median = medians[len(medians) // 2]
        lines.append(
            f"{kind} ({blows[kind]} times): median wait of a chat {median:.1f} s, longest "
            f"{longest:.1f} s"
        )
    unknown = Counter(line.partition(":")[0] for each in results for line in each.unknown)
    lines += [f"{count} calls of unknown outcome after {why}" for why, count in unknown.items()]
    bad = sum(bool(each.faults or each.slow) for each in results)
    faults = sum(bool(each.faults) for each in results)
    slow = sum(each.slow for each in results)
    lines.append(
        f"{blows.total()} blows in {len(results)} rounds and {sum(r.seconds for r in results):.0f} "
        f"s; {faults} rounds with faults; {slow} waits of more than {SERVED_S:g} s; {bad} rounds "
        "with either"
    )
    return "\n".join(lines)


async def cluster_rounds(
    *, rounds: int, seed: int, blows: int, mode: str | None, cold: bool, results: Path | None
) -> int:
    """Run rounds with increasing seeds and print each outcome. Returns 0 if no fault was found and
    each chat was served in time.

    Args:
        rounds: The number of rounds.
        seed: The seed of the first round.
        blows: The number of blows in each round.
        mode: ``code`` or ``tools``; None for one after the other.
        cold: Start each process from nothing.
        results: The folder that keeps the result of each round, and the logs of bad rounds. A round
            whose result is there is not run again. None to keep nothing.
    """
    done: list[RoundResult] = []
    with ExitStack() as servers:
        postgres = servers.enter_context(PostgresServer())
        async with AsyncExitStack() as stack:
            bots = None if cold else await stack.enter_async_context(bot_forker())
            for number in range(seed, seed + rounds):
                load = ClusterLoad(
                    seed=number, blows=blows, mode=mode or ("code", "tools")[number % 2]
                )
                file, logs = None, None
                if results is not None:
                    results.mkdir(parents=True, exist_ok=True)
                    file = results / f"round-{number}.json"
                    logs = results / f"round-{number}-{time.strftime('%H%M%S')}"
                if file is not None and file.exists():
                    done.append(RoundResult.read(file))
                    continue
                folder = Path(servers.enter_context(tempfile.TemporaryDirectory()))
                outcome = await cluster_crash(load, folder, postgres, bots=bots, logs=logs)
                done.append(RoundResult.of(load, outcome))
                print(done[-1], flush=True)
                if file is not None:
                    done[-1].write(file)
    print(report(done))
    return int(any(each.faults or each.slow for each in done))
