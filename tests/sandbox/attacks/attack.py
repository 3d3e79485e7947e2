"""What an attack is, and the ground that it is carried out on.

A row says what is tried and what *got through*: an empty answer means that the box held. With its
defence switched off (`Without`) the same row must get something through, or it proves nothing.
"""

import textwrap
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from nekro_core.sandbox.box import Backend, Box, RunLimits, RunResult, StopReason
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.jail.defences import ALL, JailDefences
from tests.sandbox.conftest import SMALL
from tests.sandbox.run_code import Tools

QUICK = RunLimits(seconds=10)
GotThrough = list[str]


@dataclass(frozen=True, kw_only=True)
class Without:
    """What is switched off to see an attack succeed."""

    defences: JailDefences = ALL
    limits: tuple[tuple[str, Any], ...] = ()
    """Of the run, in the place of the row's own."""
    naive: bool = False
    """Whether the host's operation, which is the defence, gives way to the obvious one: a program
    of the box that is given the path, a text for its shell, `tarfile`, strings put together."""
    hosts: frozenset[str] = frozenset({"root", "user"})
    """Where it then succeeds: what root's boxes can do, an ordinary user's often cannot."""
    possible: Callable[[], bool] = lambda: True
    """Whether this machine's kernel would let it."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One row of the table. ``number`` is that of the design's list, 0 for our own."""

    number: int
    name: str
    act: Callable[["Ground"], Awaitable[GotThrough]]
    without: Without | None = None
    because: str = ""
    """Why it is not tried without its defence."""
    spoils: bool = False
    """Whether its box is of no use to other rows."""
    alone: bool = False
    """Whether it takes what the kernel counts for each user. An ordinary user's boxes share that,
    so it is not tried with and without its defence at the same time."""
    backends: frozenset[str] = frozenset({"jail", "docker"})

    def __post_init__(self) -> None:
        assert (self.without is None) == bool(self.because), self.name

    def __str__(self) -> str:
        return f"{self.number:02d} {self.name}"


class Ground:
    """One row's boxes, on one backend, with or without a defence."""

    def __init__(self, backend: Backend, box: Box, without: Without | None) -> None:
        self.backend = backend
        self.box = box
        self.without = without
        self.boxes = AsyncExitStack()

    @property
    def naive(self) -> bool:
        """See `Without.naive`."""
        return self.without is not None and self.without.naive

    async def another_box(self) -> Box:
        """One more, destroyed with the ground."""
        made = await make_box(self.backend, self.without)
        self.boxes.push_async_callback(made.destroy)
        return made

    async def play(
        self,
        code: str,
        limits: RunLimits = QUICK,
        tools: Tools | None = None,
        box: Box | None = None,
        patience: float = 30.0,
    ) -> RunResult | None:
        """Run code to its end; None where it had none in time, and was cancelled."""
        tools = tools or Tools()
        if self.without is not None:
            limits = replace(limits, **dict(self.without.limits))
        run = await (box or self.box).start_run(tools.functions, tools.handle, limits)
        await run.feed(textwrap.dedent(code), 1)
        with anyio.move_on_after(patience):
            return await run.finish()
        await run.cancel()
        return None


async def make_box(backend: Backend, without: Without | None) -> Box:
    """A small box, where ``without`` says so with a defence less."""
    if without is None or without.defences == ALL:
        return await backend.create(SMALL)
    assert isinstance(backend, JailBackend)
    return await backend.create(SMALL, defences=without.defences)


PRELUDE = """
import ctypes, errno, os, resource, signal, socket, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"

def fails(action, *errors):
    try:
        got = action()
    except OSError as error:
        print("held" if not errors or error.errno in errors else f"another error: {error}")
    else:
        print("NOT HELD:", got)

def holds(held, seen=""):
    print("held" if held else f"NOT HELD: {seen}")

def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""
"""What the code of every attack may use. ``held`` is a line for each thing that did not work."""


def guest(code: str, held: int = 1) -> Callable[[Ground], Awaitable[GotThrough]]:
    """Code that prints ``held`` so many times, and something else for what it could do."""

    async def act(ground: Ground) -> GotThrough:
        return judge(await ground.play(PRELUDE + textwrap.dedent(code)), held)

    return act


def judge(result: RunResult | None, held: int) -> GotThrough:
    """What a run of such code got through."""
    if result is None or result.stop is not StopReason.FINISHED:
        return [f"its run ended otherwise: {result}"]
    lines = result.output.splitlines()
    got = [line for line in lines if line != "held"]
    if not got and len(lines) != held:
        got.append(f"{len(lines)} of {held} steps were taken")
    return got


def bomb(
    code: str, *stops: StopReason, seconds: float = 0.3
) -> Callable[[Ground], Awaitable[GotThrough]]:
    """Code that never ends by itself, or takes all there is: it must be ended with one of
    ``stops``, leave bounded output, and the next run must work."""

    async def act(ground: Ground) -> GotThrough:
        limits = RunLimits(seconds=seconds)
        loose = ground.without is not None
        result = await ground.play(
            PRELUDE + textwrap.dedent(code), limits, patience=seconds + 0.3 if loose else 20.0
        )
        got = []
        if result is None:
            got.append("it went on")
        elif result.stop not in stops:
            got.append(f"it ended with {result.stop.value}: {result.error[-300:]}")
        elif len(result.output) > limits.output_bytes:
            got.append(f"{len(result.output)} bytes were kept")
        after = await ground.play("print('next')")
        if after is None or after.output != "next\n":
            got.append(f"the next run: {after}")
        return got

    return act


def ids(attacks: Iterable[Attack]) -> list[str]:
    """Names for pytest."""
    return [str(attack).replace(" ", "-") for attack in attacks]


HOST_FOLDER = Path("/var/tmp")
"""Where a file of the host's lies that anyone may read, and that no box has of its own."""
