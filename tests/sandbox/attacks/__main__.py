"""``python -m tests.sandbox.attacks`` carries out all attacks on every available backend.

It prints a report. ``--write FILE`` also writes the report to a file; ``docs/attacks.md`` was
written in this way. ``--backend NAME`` chooses one backend. If root starts it, it also starts
itself as an ordinary user; that process prints its outcomes with ``--json``. The exit code is 1 if
an attack got through or proved nothing.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from nekro_core.sandbox.backends import open_backend
from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.settings import BackendName, SandboxSettings
from tests.sandbox.as_ordinary_user import become
from tests.sandbox.attacks import TABLE
from tests.sandbox.attacks.campaign import carry_out, host_kind
from tests.sandbox.docker.engine import NoEngine, give_image, running_engine
from tests.sandbox.reused_boxes import reusable_boxes

HERE = Path(__file__).parent
Row = dict[str, str]
"""A row of the printed table. Its keys are ``attack``, ``ground``, ``with`` and ``without`` (the
defence), and ``because``."""


async def outcomes(name: str) -> list[Row]:
    """Carry out every row on one backend in this process. Raises `BackendUnavailable`."""
    with ExitStack() as stack:
        host = await _engine(stack) if name == "docker" else ""
        return await _outcomes(name, SandboxSettings(backend=BackendName(name), docker_host=host))


async def _engine(stack: ExitStack) -> str:
    """The address of an engine with an image: the one that the environment names, or a new one."""
    if given := os.environ.get("NEKRO_TEST_DOCKER_HOST"):
        return given
    folder = Path(stack.enter_context(TemporaryDirectory()))
    try:
        host = stack.enter_context(running_engine(folder / "engine"))
    except NoEngine as reason:
        raise BackendUnavailable(str(reason)) from None
    await give_image(host)
    return host


async def _outcomes(name: str, settings: SandboxSettings) -> list[Row]:
    async with anyio.create_task_group() as tasks:
        backend = await open_backend(settings, tasks)
        try:
            async with reusable_boxes(backend) as reusable:
                found = await carry_out(backend, TABLE, reusable if name == "docker" else None)
        finally:
            await backend.aclose()
            tasks.cancel_scope.cancel()
    return [
        {
            "attack": str(attack),
            "ground": f"{name}, {host_kind()}",
            "with": "; ".join(filter(None, (one.trouble, *one.got))) or "held",
            "without": (
                ""
                if one.got_without is None
                else "got through"
                if one.got_without
                else "PROVES NOTHING"
            ),
            "because": attack.because,
        }
        for attack, one in found.items()
    ]


def as_ordinary_user(name: str) -> list[Row]:
    """Carry out every row in another process, as an ordinary user."""
    again = [sys.executable, "-m", "tests.sandbox.attacks", "--json", "--backend", name]
    done = subprocess.run([*become(), *again], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise BackendUnavailable(done.stderr[-500:])
    rows: list[Row] = json.loads(done.stdout)
    return rows


def report(grounds: dict[str, list[Row]], missing: Sequence[str]) -> str:
    """Return the table of attacks with their outcomes, as Markdown."""
    names = list(grounds)
    lines = [
        "| attack | " + " | ".join(names) + " | without its defence |",
        "|---" * (len(names) + 2) + "|",
    ]
    for attack in TABLE:
        rows = {
            name: next((row for row in found if row["attack"] == str(attack)), None)
            for name, found in grounds.items()
        }
        cells = [row["with"] if row else "–" for row in rows.values()]
        without = [row["without"] for row in rows.values() if row and row["without"]]
        last = "; ".join(dict.fromkeys(without)) or f"not tried: {attack.because}"
        if attack.without is not None and not without:
            last = "not tried: this machine or host could not do it either"
        number, name = str(attack).split(" ", 1)
        shown = "own" if number == "00" else str(int(number))
        lines.append(f"| {shown}. {name} | " + " | ".join(cells) + f" | {last} |")
    lines += [f"\nNot tried here: {one}" for one in missing]
    return "\n".join([*_HEAD, "", *lines]) + "\n"


_HEAD = """\
# Attacks on boxes, and what came of them

Written by `python -m tests.sandbox.attacks --write docs/attacks.md` (`make attack` runs it).
Numbers are those of the design's list; `own` are ours. The last column is the same attack once
more, with its defence switched off, on the jail: there it must get through, or it proves nothing.
""".splitlines()


def main() -> int:
    """Parse the command line, carry out the attacks and print the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.sandbox.attacks")
    parser.add_argument("--backend", choices=["jail", "docker"], action="append")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", type=Path)
    chosen = parser.parse_args()
    if chosen.json:
        print(json.dumps(asyncio.run(outcomes(chosen.backend[0]))))
        return 0
    grounds: dict[str, list[Row]] = {}
    missing = []
    for name in chosen.backend or ["jail", "docker"]:
        tries = [(host_kind(), lambda name=name: asyncio.run(outcomes(name)))]
        if name == "jail" and os.geteuid() == 0 and shutil.which("unshare"):
            tries.append(("user", lambda name=name: as_ordinary_user(name)))
        for host, carry in tries:
            try:
                grounds[f"{name}, {host}"] = carry()
            except BackendUnavailable as error:
                missing.append(f"{name}, {host}: {str(error).splitlines()[0]}")
    text = report(grounds, missing)
    print(text)
    if chosen.write:
        chosen.write.write_text(text)
    words = {row[key] for found in grounds.values() for row in found for key in ("with", "without")}
    return int(not grounds or not words <= {"held", "got through", ""})


if __name__ == "__main__":
    sys.exit(main())
