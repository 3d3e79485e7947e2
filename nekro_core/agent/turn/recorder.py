"""What a turn did and cost, written down as it goes, so that it is known after a crash too."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from nekro_core.agent.turn.reply import ModelReply
from nekro_core.agent.turn.run_calls import RunCalls
from nekro_core.chat import ChatKey
from nekro_core.llm.model import RequestUsage
from nekro_core.store import DeliveryRow, Step, Store, StoreUnavailable, ToolCall, TurnRow

_ASKED_S = 0.01
"""By when a request has left."""
SAID = "said"
"""`RunRecord.stop` of a run without code: a reply's prose went to the chat."""
SAID_BESIDE = "said_beside"
"""The same, where the prose stood beside native calls and the turn goes on."""
ANSWERED = "answered"
"""`RunRecord.stop` of native calls: each has its answer, and the model is asked again."""

PRINTED = "printed"
"""`RunRecord.stop` of code that came to its end and has something to show to the model."""
CUT_OFF = "cut_off"
"""`RunRecord.stop` of a run that the end of its process cut off; the next process writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """When a step began and what it cost. Times: seconds since 1970, seconds."""

    started: float
    seconds: float
    usage: RequestUsage
    model: str
    money: float = 0.0


class TurnRecorder:
    """The store's pages of one turn. ``begin`` writes that there is one: a moment after
    `begin_after_request`, or when something else is written. Nothing runs before; a process that
    dies before leaves the question unanswered, which is found as well."""

    def __init__(
        self,
        store: Store,
        chat_key: ChatKey,
        begin: Callable[[], Awaitable[TurnRow]],
        *,
        through_seq: int,
    ) -> None:
        self._store = store
        self._begin = begin
        self._begun: Awaitable[TurnRow] | None = None
        self._turn: TurnRow | None = None
        self._refused: StoreUnavailable | None = None
        self._through = through_seq
        self._position = 0
        self._chat_key = chat_key

    def begin_after_request(self) -> None:
        """Have it written that there is a turn, once the model is asked: together, the commit would
        take the processor from the request."""
        asyncio.get_running_loop().call_later(_ASKED_S, self._begin_now)

    def _begin_now(self) -> Awaitable[TurnRow]:
        if self._begun is None:
            self._begun = self._begin()
        return self._begun

    async def turn_id(self) -> int:
        """The turn's number, once it is in the store. Raises `StoreUnavailable`, each time."""
        if self._refused is not None:
            raise self._refused
        if self._turn is None:
            try:
                self._turn = await self._begin_now()
            except StoreUnavailable as error:
                self._refused = error
                raise
        return self._turn.turn_id

    async def is_begun(self) -> bool:
        """Whether the store took the turn: where it could not, nothing was done or said."""
        try:
            await self.turn_id()
        except StoreUnavailable:
            return False
        return True

    @property
    def through_seq(self) -> int:
        """The newest record that a step has seen."""
        return self._through

    async def continue_after(self, steps: list[Step]) -> None:
        """The turn is taken up again: number the steps on from what it has."""
        self._position = max((step.position + 1 for step in steps), default=0)

    async def seen(self, seq: int) -> None:
        """The next step sees records through ``seq``."""
        if seq > self._through:
            self._through = seq
            await self._store.turns.seen(await self.turn_id(), seq)

    async def begin_run(self, run_id: str, code: str = "") -> None:
        """Code begins, or prose is about to be sent."""
        await (await self.save_run(run_id, code))

    async def save_run(self, run_id: str, code: str = "") -> Awaitable[object]:
        """The same; what comes back is done once it is written down, and may be awaited often."""
        turn_id = await self.turn_id()
        return self._store.runs.begin(
            run_id, self._chat_key, turn_id=turn_id, step=self._position, code=code
        )

    def save_calls(self, run_id: str, calls: Sequence[ToolCall]) -> object:
        """Calls have begun or are over: a restart must know of them."""
        return self._store.runs.add_calls(run_id, calls)

    async def _keep_rest(self, run_id: str, calls: RunCalls) -> None:
        if rest := calls.take_unsaved():
            await self._store.runs.add_calls(run_id, rest)

    async def said(self, run_id: str, stop: str = SAID) -> None:
        """The prose was sent."""
        await self._store.runs.end(run_id, output="", stop=stop, seconds=0.0)

    async def end_calls(self, run_id: str, calls: RunCalls, output: str, seconds: float) -> None:
        """Native calls are over, each with its answer."""
        await self._keep_rest(run_id, calls)
        await self._store.runs.end(run_id, output=output, stop=ANSWERED, seconds=seconds)

    async def end_run(self, run_id: str, reply: ModelReply, calls: RunCalls) -> None:
        """Code is over."""
        result = reply.result
        stop = result.stop.value if result else "box_lost"
        await self._keep_rest(run_id, calls)
        await self._store.runs.end(
            run_id,
            code=reply.code,
            output=result.output if result else "",
            stop=PRINTED if reply.shows else stop,
            error=result.error if result else str(reply.box_error or ""),
            seconds=result.seconds if result else 0.0,
        )

    async def cut_run(self, run_id: str, calls: RunCalls) -> None:
        """Code was stopped from outside; what it was stays as it was begun."""
        await self._keep_rest(run_id, calls)
        await self._store.runs.end(run_id, output="", stop="cancelled", seconds=0.0)

    async def end_step(self, kept: str, tail: str, cost: StepCost) -> None:
        """A reply was paid for."""
        await self._store.turns.add_step(
            await self.turn_id(),
            Step(
                position=self._position,
                reply=kept + tail,
                tail=tail,
                model=cost.model,
                prompt_tokens=cost.usage.prompt_tokens,
                cached_tokens=cost.usage.cached_tokens,
                completion_tokens=cost.usage.completion_tokens,
                estimated=cost.usage.estimated,
                cost=cost.money,
                started=cost.started,
                seconds=cost.seconds,
            ),
        )
        self._position += 1

    async def sent(self) -> list[DeliveryRow]:
        """Everything that the turn sent so far."""
        return await self._store.deliveries.of_turn(await self.turn_id())

    async def sent_in_run(self, run_id: str) -> list[DeliveryRow]:
        """What one run sent."""
        return await self._store.deliveries.of_run(run_id)

    async def end(
        self, stop: str, waiting_seq: int | None = None, *, only_asked: bool = False
    ) -> None:
        """The turn is over; see `Turns.end`."""
        await self._store.turns.end(
            await self.turn_id(), stop=stop, waiting_seq=waiting_seq, only_asked=only_asked
        )
