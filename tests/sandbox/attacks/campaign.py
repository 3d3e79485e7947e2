"""Carries out attacks on a backend. Each attack is a row of the table in docs/attacks.md. Attacks
share a box, except those that spoil it."""

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass

import anyio

from nekro_core.sandbox.box import Backend, Box
from nekro_core.sandbox.jail.defences import JailDefences
from tests.sandbox.attacks.attack import Attack, GotThrough, Ground, Without, make_box
from tests.sandbox.reused_boxes import ReusableBoxes

_AT_ONCE = 4
"""How many rows run at once. It may be more than the number of processors, since half of the rows
only wait for a time limit."""
_ROW_TIMEOUT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one attack (a row of the table) achieved on one backend, with its defence (``got``) and
    without it (``got_without``). None means that the row was not tried without its defence."""

    attack: Attack
    backend: str
    host: str
    got: tuple[str, ...]
    got_without: tuple[str, ...] | None
    trouble: str = ""
    """The reason why the row could not be carried out."""

    @property
    def fault(self) -> str:
        """What is wrong, or an empty text."""
        if self.trouble:
            return self.trouble
        if self.got:
            return f"got through: {'; '.join(self.got)}"
        if self.got_without == ():
            return f"without {self.attack.without} it got nothing through either: it proves nothing"
        return ""


def host_kind() -> str:
    """Return ``"root"`` if this process, which makes the boxes, runs as root, else ``"user"``."""
    return "root" if os.geteuid() == 0 else "user"


def wanted_without(attack: Attack, backend: Backend) -> Without | None:
    """The defence to switch off for a row on this host and backend, or None."""
    without = attack.without
    if without is None or host_kind() not in without.hosts or not without.possible():
        return None
    if backend.name != "jail" and without.defences != JailDefences():
        return None
    return without


async def carry_out(
    backend: Backend, attacks: Sequence[Attack], reusable: ReusableBoxes | None = None
) -> dict[Attack, Outcome]:
    """Carry out every row, several at once. An attack that gets through raises no error.

    With ``reusable``, an attack that spoils its box and keeps all defences takes a box from there,
    which is emptied afterwards and used again. Otherwise such an attack gets a box of its own.
    """
    jobs: list[tuple[Attack, Without | None]] = []
    for attack in attacks:
        if backend.name in attack.backends:
            jobs.append((attack, None))
            if without := wanted_without(attack, backend):
                jobs.append((attack, without))
    # Rows that spoil their box come first: they often wait for a time limit. So only
    # short rows run at the end.
    jobs.sort(key=lambda job: not job[0].spoils)
    found: dict[tuple[Attack, bool], GotThrough] = {}
    troubles: dict[Attack, str] = {}
    one_at_a_time = anyio.Lock()

    async def work() -> None:
        async with AsyncExitStack() as stack:
            shared: dict[JailDefences, Box] = {}
            while jobs:
                attack, without = jobs.pop(0)
                found[attack, without is None] = []
                try:
                    async with one_at_a_time if attack.alone else nullcontext():
                        got = await _try(backend, attack, without, shared, stack, reusable)
                    found[attack, without is None] = got
                except Exception as error:  # noqa: BLE001 - a row that fails must not stop others
                    words = "without its defence, " if without else ""
                    troubles[attack] = f"{words}{_innermost(error)!r}"

    os.environ["NEKRO_CANARY"] = "a secret of the environment"
    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(_AT_ONCE):
                tasks.start_soon(work)
    finally:
        del os.environ["NEKRO_CANARY"]
    return {
        attack: Outcome(
            attack=attack,
            backend=backend.name,
            host=host_kind(),
            got=tuple(found[attack, True]),
            got_without=tuple(found[attack, False]) if (attack, False) in found else None,
            trouble=troubles.get(attack, ""),
        )
        for attack in attacks
        if (attack, True) in found
    }


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _try(
    backend: Backend,
    attack: Attack,
    without: Without | None,
    shared: dict[JailDefences, Box],
    stack: AsyncExitStack,
    reusable: ReusableBoxes | None,
) -> GotThrough:
    with anyio.fail_after(_ROW_TIMEOUT_S):
        async with AsyncExitStack() as own:
            box = await _choose_box(backend, attack, without, shared, stack, own, reusable)
            ground = Ground(backend, box, without)
            await own.enter_async_context(ground.boxes)
            return await attack.act(ground)


async def _choose_box(
    backend: Backend,
    attack: Attack,
    without: Without | None,
    shared: dict[JailDefences, Box],
    stack: AsyncExitStack,
    own: AsyncExitStack,
    reusable: ReusableBoxes | None,
) -> Box:
    key = without.defences if without is not None else JailDefences()
    if attack.spoils and reusable is not None and key == JailDefences():
        box = await reusable.take()
        own.push_async_callback(reusable.give_back, box)
        return box
    if attack.spoils:
        box = await make_box(backend, without)
        own.push_async_callback(box.destroy)
        return box
    if key not in shared or not shared[key].alive:
        shared[key] = await make_box(backend, without)
        stack.push_async_callback(shared[key].destroy)
    return shared[key]
