"""Puts small faults (mutants) into modules in which a mistake loses messages, permissions or money,
and reports the mutants that no test notices (the survivors): ``make mutants``.

    make mutants                               all modules of modules.toml, 40 mutants each
    make mutants ARGS="split ledger"           only these modules
    make mutants ARGS="--show"                 print the figures and the survivors; run nothing
    make mutants ARGS="--again"                also try survivors whose tests did not change

A stopped run continues at the next start, because each result is stored in
``.mutants/results.json``. A survivor is tried again when the tests of its room have changed. The
exit code is 1 if the tests notice less than nine tenths of a module's mutants, or if more than one
in twenty is listed as equivalent (a change without any effect).
"""

import argparse
import hashlib
import json
import queue
import subprocess
import sys
import threading
import time
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.mutants.judging import ROOT, Copy, Module, TestsFail, judge, reached

HERE = Path(__file__).parent
KEPT = ROOT / ".mutants"
MUTMUT = ROOT / ".venv-mutants" / "bin" / "python"
SEED = "11"
COUNT = 40
ENOUGH = 0.9
"""The share of a module's mutants that the tests must notice."""
MOST_EQUIVALENT = 0.05
BASELINE_S = 900.0


class Results:
    """The results so far. The file is written after each mutant."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.rows: dict[str, dict[str, Any]] = (
            json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        )

    def put(self, name: str, row: dict[str, Any]) -> None:
        with self._lock:
            self.rows[name] = row
            fresh = self._path.with_suffix(".new")
            fresh.write_text(json.dumps(self.rows, indent=1), encoding="utf-8")
            fresh.replace(self._path)


def modules() -> list[Module]:
    table = tomllib.loads((HERE / "modules.toml").read_text(encoding="utf-8"))
    rows = [
        Module(name, row["source"], tuple(row["nearest"]), tuple(row["room"]))
        for name, row in table.items()
    ]
    for row in rows:
        for path in (row.source, *row.nearest, *row.room):
            if not (ROOT / path).exists():
                raise SystemExit(f"modules.toml, {row.name}: there is no {path}")
    return rows


def equivalents() -> dict[str, str]:
    table = tomllib.loads((HERE / "equivalent.toml").read_text(encoding="utf-8"))
    return {row["id"]: row["why"] for row in table.get("mutant", ())}


def drawn(module: Module, count: int, seed: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [MUTMUT, HERE / "draw.py", ROOT / module.source, module.name, str(count), seed],
        check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def fingerprint(paths: Sequence[str]) -> str:
    """A digest of the test files in ``paths`` and of the shared ``conftest.py``."""
    digest = hashlib.sha256()
    for path in sorted({*paths, "tests/conftest.py"}):
        whole = ROOT / path
        for file in sorted(whole.rglob("*.py")) if whole.is_dir() else [whole]:
            digest.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def work(chosen: Sequence[Module], options: argparse.Namespace, results: Results) -> None:
    """Try the mutants in parallel, two at a time by default.

    A room's tests first run once without a fault, to find which lines each test reaches.
    """
    mutants = {module.name: drawn(module, options.count, options.seed) for module in chosen}
    fresh: dict[str, str] = {module.name: fingerprint(module.room) for module in chosen}
    waiting: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for module in chosen:
        for mutant in mutants[module.name]:
            known = results.rows.get(mutant["id"])
            if (
                known is None
                or options.all
                or (
                    known["status"] == "survived"
                    and (options.again or known["room"] != fresh[module.name])
                )
            ):
                waiting[module.name].append(mutant)
    rooms: dict[tuple[str, ...], list[Module]] = defaultdict(list)
    for module in chosen:
        if waiting[module.name]:
            rooms[module.room].append(module)
    many = sum(map(len, waiting.values()))
    print(f"{many} mutants to try in {len(rooms)} rooms, seed {options.seed!r}")
    tasks: queue.SimpleQueue[tuple[Module, ...]] = queue.SimpleQueue()
    for room in rooms.values():
        tasks.put(tuple(room))
    ready: queue.SimpleQueue[tuple[Module, dict[str, Any], dict[str, Any]]] = queue.SimpleQueue()
    coming = [tuple(room) for room in rooms.values()]
    faults: list[BaseException] = []

    def live(number: int) -> None:
        try:
            copy = Copy(KEPT / f"copy-{number}")
            while not faults:
                try:
                    module, mutant, found = ready.get_nowait()
                except queue.Empty:
                    try:
                        room = tasks.get_nowait()
                    except queue.Empty:
                        if not coming:
                            return
                        time.sleep(0.5)
                        continue
                    found = _reached(copy, room, fresh)
                    for module in room:
                        for mutant in waiting[module.name]:
                            ready.put((module, mutant, found))
                    coming.remove(room)
                    continue
                verdict = judge(copy, module, mutant, found)
                row = {
                    "module": module.name, "line": mutant["line"], "diff": mutant["diff"],
                    "status": verdict.status, "by": verdict.by, "tests": verdict.tests,
                    "seconds": round(verdict.seconds, 1), "room": fresh[module.name],
                }  # fmt: skip
                results.put(mutant["id"], row)
                left = ready.qsize()
                print(
                    f"{time.strftime('%H:%M:%S')} {mutant['id']} {verdict.status}, "
                    f"{verdict.seconds:.0f} s, {verdict.tests} tests; {left} wait", flush=True,
                )  # fmt: skip
        except BaseException as error:
            faults.append(error)
            raise

    threads = [threading.Thread(target=live, args=(number,)) for number in range(options.at_once)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt as error:
        print("stopping after the mutants that are being tried")
        faults.append(error)
        for thread in threads:
            thread.join()
    if faults:
        raise SystemExit(f"stopped: {faults[0]!r}")


def _reached(copy: Copy, room: Sequence[Module], fresh: dict[str, str]) -> dict[str, Any]:
    names = "+".join(module.name for module in room)
    sources = "".join((ROOT / module.source).read_text(encoding="utf-8") for module in room)
    mark = hashlib.sha256(f"{names}{fresh[room[0].name]}{sources}".encode()).hexdigest()[:16]
    kept = KEPT / f"reached-{mark}.json"
    if kept.exists():
        known: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return known
    began = time.monotonic()
    found = reached(copy, room, BASELINE_S)
    print(f"{names}: {len(found)} tests as they are, {time.monotonic() - began:.0f} s", flush=True)
    kept.write_text(json.dumps(found), encoding="utf-8")
    return found


def report(chosen: Sequence[Module], options: argparse.Namespace, results: Results) -> bool:
    """Print the figures and the survivors. Return True if every module passes."""
    known, well, told = equivalents(), True, []
    print(f"\nseed {options.seed!r}, {options.count} drawn of a module\n")
    print(f"{'module':14} drawn killed timed-out equivalent survived  noticed")
    ids: set[str] = set()
    for module in chosen:
        rows = [
            (each["id"], results.rows.get(each["id"]), each)
            for each in drawn(module, options.count, options.seed)
        ]
        ids |= {each for each, _, _ in rows}
        many = len(rows)
        count: dict[str, int] = defaultdict(int)
        for each, row, mutant in rows:
            status = "untried" if row is None else row["status"]
            if status == "survived" and each in known:
                status = "equivalent"
            count[status] += 1
            if status in ("survived", "untried"):
                told.append(f"{module.source}:{mutant['line']}  {each}  {status}\n{mutant['diff']}")
        noticed = count["killed"] + count["timed out"]
        share = noticed / many if many else 1.0
        well &= share >= ENOUGH and count["equivalent"] <= MOST_EQUIVALENT * many
        print(
            f"{module.name:14} {many:5} {count['killed']:6} {count['timed out']:9} "
            f"{count['equivalent']:10} {count['survived']:8}  {share:6.1%}"
            + (f"  {count['untried']} not tried yet" if count["untried"] else "")
        )
    if len(chosen) == len(modules()) and (options.seed, options.count) == (SEED, COUNT):
        for each in known.keys() - ids:
            print(f"equivalent.toml names {each}, which was not drawn")
    print("\n" + "\n\n".join(told) if told else "\nnobody survived")
    return well


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("names", nargs="*", help="modules of modules.toml; all without")
    parser.add_argument("--seed", default=SEED)
    parser.add_argument("--count", type=int, default=COUNT, help="mutants of a module")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="try survivors again")
    parser.add_argument("--all", action="store_true", help="try all again")
    parser.add_argument("--show", action="store_true", help="only print what is known")
    options = parser.parse_args()
    every = modules()
    if unknown := {*options.names} - {module.name for module in every}:
        parser.error(
            f"unknown: {', '.join(sorted(unknown))}; modules.toml has "
            f"{', '.join(module.name for module in every)}"
        )
    chosen = [module for module in every if not options.names or module.name in options.names]
    KEPT.mkdir(exist_ok=True)
    results = Results(KEPT / "results.json")
    began = time.monotonic()
    if not options.show:
        try:
            work(chosen, options, results)
        except TestsFail as error:
            raise SystemExit(str(error)) from None
        print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    return 0 if report(chosen, options, results) else 1


if __name__ == "__main__":
    sys.exit(main())
