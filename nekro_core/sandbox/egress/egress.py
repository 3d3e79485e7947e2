"""Opens and closes the network access of boxes while the boxes run.

A box has no network of its own. Code in it can reach only a proxy in the bot's process, and only if
the box has rules. The proxy makes the connections that the rules allow.
"""

import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.abc

from nekro_core.sandbox.box import SandboxError
from nekro_core.sandbox.egress.dial import Dialer
from nekro_core.sandbox.egress.environment import EGRESS_PORT, box_environment
from nekro_core.sandbox.egress.limits import EgressLimits, TrafficBudget
from nekro_core.sandbox.egress.refusals import EgressRefusals
from nekro_core.sandbox.egress.rules import EgressRules
from nekro_core.sandbox.results import Listener

if TYPE_CHECKING:
    from nekro_core.sandbox.egress.proxy import EgressProxy

from nekro_core.sandbox.box import Box

_log = logging.getLogger(__name__)
_REST_S = 1.0

Allow = Callable[[str, str], EgressRules]
"""Returns the rules of a box, from its owner and its name. It is called for each connection, so
changed rules apply to new connections at once. `Egress.refresh` also applies them to open
connections, and opens and closes proxies."""


class EgressBox(Protocol):
    """The part of a `Box` that `Egress` needs."""

    @property
    def alive(self) -> bool:
        """Return True if the box can be used."""

    async def listen(self, port: int) -> Listener:
        """See `Box.listen`."""

    def set_environment(self, variables: Mapping[str, str]) -> None:
        """See `Box.set_environment`."""


@dataclass(slots=True)
class _Attached:
    box: EgressBox
    gate: "EgressProxy | None" = None
    listener: Listener | None = None
    changing: anyio.Lock = field(default_factory=anyio.Lock)


class Egress:
    """Opens a proxy for each box that has rules. See `Egress.open`."""

    def __init__(
        self,
        allow: Allow,
        tasks: anyio.abc.TaskGroup,
        *,
        limits: EgressLimits | None = None,
        dialer: Dialer | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allow = allow
        self._tasks = tasks
        self._limits = limits or EgressLimits()
        self._dialer = dialer or Dialer()
        self._environment = box_environment() if environment is None else dict(environment)
        self._clock = clock
        self.refusals = EgressRefusals()
        """The destinations that were refused lately."""
        self._budgets: dict[str, TrafficBudget] = {}
        self._boxes: dict[tuple[str, str], _Attached] = {}

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        allow: Allow,
        *,
        limits: EgressLimits | None = None,
        dialer: Dialer | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> AsyncIterator["Egress"]:
        """Serve proxies until the context ends. ``allow`` returns the rules of a box, ``dialer``
        makes the connections. ``environment`` has the variables that a box with a proxy gets
        (default: `box_environment`)."""
        tasks = anyio.create_task_group()
        await tasks.__aenter__()
        try:
            yield cls(
                allow, tasks, limits=limits, dialer=dialer, environment=environment, clock=clock
            )
        finally:
            tasks.cancel_scope.cancel()
            # `__aexit__` does not get the error of the ``with`` block, because it would wrap this
            # error in an exception group.
            await tasks.__aexit__(None, None, None)

    async def attach(self, owner: str, name: str, box: EgressBox) -> None:
        """Register a running box, and open its proxy if it has rules. Raises `SandboxError` if the
        proxy cannot be opened."""
        self._forget_dead()
        attached = self._boxes[owner, name] = _Attached(box)
        await self._adjust(owner, name, attached)

    async def refresh(self) -> None:
        """Apply changed rules: open and close proxies, and end connections that are no longer
        allowed. If a proxy cannot be opened, this is logged and no error is raised."""
        self._forget_dead()
        for attached in self._boxes.values():
            if attached.gate is not None:
                attached.gate.recheck()
        async with anyio.create_task_group() as tasks:
            for (owner, name), attached in self._boxes.items():
                tasks.start_soon(self._try_to_adjust, owner, name, attached)

    def follow(self, changed: Callable[[], bool], every_s: float = 1.0) -> None:
        """Start a task that calls ``changed`` every ``every_s`` seconds, and `refresh` if it
        returned true."""

        async def watch() -> None:
            while True:
                await anyio.sleep(every_s)
                if changed():
                    await self.refresh()

        self._tasks.start_soon(watch)

    async def _try_to_adjust(self, owner: str, name: str, attached: _Attached) -> None:
        try:
            await self._adjust(owner, name, attached)
        except SandboxError as error:
            _log.warning("box %r of %r gets no network access: %s", name, owner, error)

    async def _adjust(self, owner: str, name: str, attached: _Attached) -> None:
        # Each box has a lock, so that a slow box does not delay others.
        async with attached.changing:
            wanted = bool(self._allow(owner, name))
            if wanted and attached.listener is None:
                attached.gate = gate = attached.gate or self._gate(owner, name)
                attached.listener = await attached.box.listen(EGRESS_PORT)
                attached.box.set_environment(self._environment)
                self._tasks.start_soon(self._serve, attached.listener, gate)
            elif not wanted and attached.listener is not None:
                listener, attached.listener = attached.listener, None
                attached.box.set_environment({})
                await listener.aclose()

    def _gate(self, owner: str, name: str) -> "EgressProxy":
        # This import takes time. It is inside the function so that a bot whose boxes have no
        # network does not need it.
        from nekro_core.sandbox.egress.proxy import EgressProxy  # noqa: PLC0415

        return EgressProxy(
            f"box {name!r} of {owner!r}",
            lambda: self._allow(owner, name),
            dialer=self._dialer,
            budget=self.budget(owner),
            limits=self._limits,
            refused=partial(self.refusals.add, owner),
        )

    async def _serve(self, listener: Listener, gate: "EgressProxy") -> None:
        async with anyio.create_task_group() as connections:
            while True:
                try:
                    stream = await listener.accept()
                except (anyio.ClosedResourceError, SandboxError):
                    break
                except OSError as error:
                    # This process has no free file descriptor. Soon some open connections will end
                    # and free theirs.
                    _log.warning("a connection from a box waits to be accepted: %s", error)
                    await anyio.sleep(_REST_S)
                    continue
                connections.start_soon(gate.serve, stream)
            connections.cancel_scope.cancel()

    def budget(self, owner: str) -> TrafficBudget:
        """Return the traffic budget of an owner's boxes."""
        budget = self._budgets.get(owner)
        if budget is None:
            budget = TrafficBudget(self._limits.bytes_per_hour, self._clock)
            self._budgets[owner] = budget
        return budget

    def _forget_dead(self) -> None:
        for key, attached in tuple(self._boxes.items()):
            if not attached.box.alive:
                del self._boxes[key]


NO_OWNER = ""
"""The owner name for boxes that belong to no chat."""


class EgressBoxSource(Protocol):
    """Makes the boxes that `DefaultEgressSource` gives network access."""

    async def take(self, image: str = "") -> Box:
        """Return a new box, which the caller must destroy."""


class DefaultEgressSource:
    """Takes boxes from another source, and gives them the network access of `NO_OWNER`."""

    def __init__(self, source: EgressBoxSource, egress: Egress) -> None:
        self._source = source
        self._egress = egress

    async def take(self, image: str = "") -> Box:
        """Return a new box. Raises the errors of the source, and `SandboxError` if the proxy cannot
        be opened."""
        box = await self._source.take(image)
        try:
            await self._egress.attach(NO_OWNER, box.box_id, box)
        except BaseException:
            await box.destroy()
            raise
        return box
