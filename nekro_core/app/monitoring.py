"""Reports whether the bot can answer messages, and its metrics.

The database and the disk are asked at most once in `_KEPT_S`, so that many readers cost the bot no
more work than one reader. A reader waits at most `_LONGEST_S` for their answers, so that a slow
disk does not block it.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from loguru import logger

from nekro_core import __version__
from nekro_core.agent.session.sessions import Sessions
from nekro_core.app.boxes import BoxServices
from nekro_core.app.message_io import MessageIO
from nekro_core.app.models import ModelSources
from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.platforms.contract import SupportsAccounts
from nekro_core.llm.breaker import BreakerState
from nekro_core.llm.chain import ChainLink
from nekro_core.llm.chains import ModelChains
from nekro_core.llm.embedded.model import EmbeddedModel, EmbeddedPhase
from nekro_core.llm.role_settings import DEFAULT, EMBEDDED
from nekro_core.llm.roles import ModelRole
from nekro_core.store import StoreError
from nekro_core.system.telemetry import names
from nekro_core.system.telemetry.readiness import Readiness, ReadinessCheck
from nekro_core.system.telemetry.recorders import Labels, Metric
from nekro_core.system.telemetry.settings import MetricsSettings

if TYPE_CHECKING:
    from nekro_core.system.telemetry.exposition import Exposition

_KEPT_S = 5.0
"""Seconds for which an answer of the database or the disk is kept and given to further readers."""
_LONGEST_S = 2.0
"""Maximum number of seconds that a reader waits for the database or the disk."""
_WORKING = frozenset({EmbeddedPhase.IDLE, EmbeddedPhase.READING, EmbeddedPhase.READY})
"""The phases of the embedded model in which it can answer questions."""
_Values = Mapping[Labels, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredBot:
    """The parts of the bot about which `Monitoring` reports.

    Attributes:
        message_io: Store, inbox and outbox.
        boxes: The boxes.
        sessions: The sessions of all chats.
        sources: The models of the bot, by their names.
        chains: The chain of models of each role. If a model fails, the next model of its chain is
            asked.
        adapters: Returns the adapters that run, by name.
        problems: Returns why adapters that should run do not run, by their names.
        started: Returns whether the start of the bot has ended.
        alerts: Returns the number of alerts that are not over, by their kind.
    """

    message_io: MessageIO
    boxes: BoxServices
    sessions: Sessions
    sources: ModelSources
    chains: ModelChains
    adapters: Callable[[], Mapping[str, Adapter]]
    problems: Callable[[], Mapping[str, str]]
    started: Callable[[], bool]
    alerts: Callable[[], Mapping[str, int]] = dict


class Monitoring:
    """Implements `BotMonitor`.

    Args:
        bot: The parts of the bot.
        settings: The settings that say who may read the metrics.
        clock: A monotonic clock, in seconds.
        wall: Returns the current time, in seconds since 1970.
    """

    def __init__(
        self,
        bot: MonitoredBot,
        settings: MetricsSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._bot = bot
        self._settings = settings
        self._wall = wall
        self._exposition: Exposition | None = None
        self._writable = _Kept(self._check_writable, clock)
        self._counted = _Kept(self._count, clock)

    @property
    def readers(self) -> str:
        """See `BotMonitor.readers`."""
        return self._settings.readers

    async def readiness(self) -> Readiness:
        """See `BotMonitor.readiness`."""
        written = await self._writable.get()
        database = "the database did not answer in time" if written is None else written
        problems = self._bot.problems()
        adapters = "; ".join(f"{name}: {why}" for name, why in sorted(problems.items()))
        started = "" if self._bot.started() else "the bot is starting or ending"
        reasons = {
            "start": started,
            "database": database,
            "adapters": adapters,
            "model": self.model_problem(),
        }
        return Readiness(
            checks=tuple(
                ReadinessCheck(name=name, ok=not reason, reason=reason)
                for name, reason in reasons.items()
            )
        )

    def model_problem(self) -> str:
        """Return why no model that answers chats (the role ``chat``) can be asked now; empty if at
        least one can be asked."""
        chain = self._bot.chains.model(ModelRole.CHAT)
        if chain is None:
            return "there is no model for chats"
        problems = [self._problem_of(link) for link in chain.links]
        return "" if "" in problems else "; ".join(problems)

    def _problem_of(self, link: ChainLink) -> str:
        if link.breaker.state is BreakerState.OPEN:
            return f"{link.name} cools down after a failure ({link.breaker.reason})"
        sources = self._bot.sources
        embedded = link.name == EMBEDDED or (
            link.name == DEFAULT and isinstance(sources.default.present, EmbeddedModel)
        )
        if embedded and (model := sources.embedded) is not None:
            state = model.state
            if state.phase not in _WORKING:
                return f"the embedded model: {state.phase} {state.reason}".strip()
        return ""

    async def metrics_text(self) -> tuple[bytes, str]:
        """See `BotMonitor.metrics_text`."""
        # Import `prometheus_client` for the first reader, in a thread: the import takes a tenth of
        # a second.
        exposition = await anyio.to_thread.run_sync(_exposition_module)
        if self._exposition is None:
            self._exposition = exposition.Exposition(self._bot.message_io.telemetry.metrics)
        counted = await self._counted.get()
        ready = (await self.readiness()).ready
        values: dict[Metric, _Values] = dict(self._present())
        values[names.READY] = {(): float(ready)}
        values[names.SCRAPE] = {(): float(counted is not None)}
        if counted is not None:
            outbox, asleep = counted
            values[names.OUTBOX] = {(state,): number for state, number in outbox.items()}
            values[names.BOXES] = {**values[names.BOXES], ("asleep",): asleep}
        return self._exposition.text(values), exposition.CONTENT_TYPE

    def _present(self) -> Iterator[tuple[Metric, _Values]]:
        """Yield the gauges whose values are in memory, so that nothing must be awaited."""
        bot = self._bot
        yield names.INFO, {(__version__,): 1.0}
        yield names.TURNS_RUNNING, {(): float(bot.sessions.turns_running)}
        yield (
            names.QUEUES,
            {
                ("inbox",): float(len(bot.message_io.inbox.queued)),
                ("turns",): float(bot.sessions.turns_waiting),
                ("outbox",): float(bot.message_io.outbox.waiting),
                ("database",): float(bot.message_io.store.condition.queued_writes),
            },
        )
        yield (
            names.BOXES,
            {
                ("idle",): float(bot.boxes.ready()),
                ("running",): float(bot.boxes.of_chats.warm),
            },
        )
        adapters = bot.adapters()
        up = {**dict.fromkeys(adapters, 1.0), **dict.fromkeys(bot.problems(), 0.0)}
        yield names.ADAPTERS, {(name,): value for name, value in up.items()}
        accounts = Counter(
            (name, account.state.value)
            for name, adapter in adapters.items()
            if isinstance(adapter, SupportsAccounts)
            for account in adapter.managed_accounts.listed()
        )
        yield names.ACCOUNTS, {labels: float(number) for labels, number in accounts.items()}
        yield (
            names.MODELS_UP,
            {
                (name,): float(breaker.state is not BreakerState.OPEN)
                for name, breaker in bot.chains.breakers.items()
            },
        )
        yield names.ALERTS, {(kind,): float(n) for kind, n in bot.alerts().items()}

    async def _check_writable(self) -> str:
        """Return why the database cannot be written to; empty if it can."""
        try:
            await self._bot.message_io.store.condition.check_writable(self._wall())
        except StoreError as error:
            return str(error)
        return ""

    async def _count(self) -> tuple[Mapping[str, float], float] | None:
        try:
            found = await self._bot.message_io.store.condition.outbox()
            asleep = await self._bot.boxes.of_chats.named.count_asleep()
        except (StoreError, OSError) as error:
            logger.debug("the metrics lack outbox and boxes: {}", error)
            return None
        return {state.value: float(number) for state, number in found.items()}, float(asleep)


class _Kept:
    """Calls a slow function and keeps its result for `_KEPT_S`. Readers that come while the
    function runs wait for the same result."""

    def __init__(self, ask: Callable[[], Awaitable[Any]], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = anyio.Lock()
        self._answer: Any = None
        self._asked: float | None = None

    async def get(self) -> Any:
        """Return the result; None if there is none within `_LONGEST_S`."""
        with anyio.move_on_after(_LONGEST_S):
            async with self._lock:
                if self._asked is None or self._clock() - self._asked >= _KEPT_S:
                    self._answer = None
                    self._asked = self._clock()
                    self._answer = await self._ask()
        return self._answer


def _exposition_module() -> Any:
    from nekro_core.system.telemetry import exposition  # noqa: PLC0415 - it loads prometheus_client

    return exposition
