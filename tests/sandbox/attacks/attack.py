"""Describes attacks, and the boxes in which an attack is carried out (its *ground*).

An attack returns a list of what *got through*. If the list is empty, the box *held*: its defences
stopped the attack. When the attack's defence is switched off (`Without`), the same attack must get
something through. Otherwise the attack proves nothing.
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
    """The defence that is switched off, so that the attack succeeds."""

    defences: JailDefences = ALL
    limits: tuple[tuple[str, Any], ...] = ()
    """Limits of the run, by field. They replace those that the attack itself asks for."""
    naive: bool = False
    """If true, a naive implementation replaces the host's operation, which is the defence.
    Examples: a program in the box gets the path; a shell gets a command made of strings; `tarfile`
    unpacks an archive; a result is made of strings."""
    hosts: frozenset[str] = frozenset({"root", "user"})
    """The attack succeeds without the defence only if the user of the bot is one of these. A box of
    an ordinary user often cannot do what a box of root can."""
    possible: Callable[[], bool] = lambda: True
    """Return True if this machine's kernel would allow the attack."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One attack, which is a row of the table of attacks. ``number`` is its number in the list of
    attacks in the sandbox's design. If that list does not have the attack, the number is 0, and the
    report shows ``own``."""

    number: int
    name: str
    act: Callable[["Ground"], Awaitable[GotThrough]]
    without: Without | None = None
    because: str = ""
    """The reason why the attack is not tried without its defence."""
    spoils: bool = False
    """True if the attack changes its box so much that other rows cannot use the box afterwards."""
    alone: bool = False
    """True if the attack uses up something that the kernel limits for each user. All boxes of an
    ordinary user share that limit, so no two rows with ``alone`` run at the same time."""
    backends: frozenset[str] = frozenset({"jail", "docker"})

    def __post_init__(self) -> None:
        assert (self.without is None) == bool(self.because), self.name

    def __str__(self) -> str:
        return f"{self.number:02d} {self.name}"


class Ground:
    """The boxes in which one row is carried out, on one backend, with or without the defence."""

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
        """Make one more box. It is destroyed when the row has been carried out."""
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
        """Run code to its end. Returns None if it did not end in time and was cancelled."""
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
    """A small box, without the defences that ``without`` switches off."""
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
"""Functions for the code of every attack. They print ``held`` for each step of the attack that a
defence stopped."""


def guest(code: str, held: int = 1) -> Callable[[Ground], Awaitable[GotThrough]]:
    """Make an attack from code that takes ``held`` steps. The code prints "held" for each step that
    a defence stopped, and another line for each step that succeeded."""

    async def act(ground: Ground) -> GotThrough:
        return judge(await ground.play(PRELUDE + textwrap.dedent(code)), held)

    return act


def judge(result: RunResult | None, held: int) -> GotThrough:
    """Return what got through in a run of the code that `guest` was given."""
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
    """An attack by code that never ends by itself or takes all resources. It must be ended with one
    of ``stops``, its output must be bounded, and the next run must work."""

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
    """The attacks' names, as pytest shows them."""
    return [str(attack).replace(" ", "-") for attack in attacks]


HOST_FOLDER = Path("/var/tmp")
"""The folder of the host in which attacks put files that any user may read. No box has this
folder."""
