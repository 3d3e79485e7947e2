"""Stores a turn's actions and costs while the turn runs, so that the next process knows them after
a crash."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from loguru import logger

from nekro_core.agent.prompt.sources import PromptSources
from nekro_core.agent.shown.watch import StepWatch
from nekro_core.agent.turn.reply import ModelReply
from nekro_core.agent.turn.run_calls import RunCalls
from nekro_core.chat import ChatKey
from nekro_core.llm.model import PriceSource, RequestUsage
from nekro_core.store import (
    DeliveryRow,
    SqlStatement,
    Step,
    Store,
    StoreUnavailable,
    ToolCall,
    TurnRow,
)
from nekro_core.store.prompts import PromptRow
from nekro_core.store.turns import NORMAL_STOPS

_Written = TypeVar("_Written")

_REQUEST_SENT_S = 0.01
"""Seconds after which a request to the model has certainly been sent."""
SAID = "said"
"""`RunRecord.stop` of a run without code, in which the model's text was sent to the chat."""
SAID_BESIDE = "said_beside"
"""`RunRecord.stop` of a run that sent the text of a reply. The reply also has native calls, with
which the model calls functions without writing code, so the turn continues after this run."""
SAID_PART = "said_part"
"""`RunRecord.stop` of a run that sent a part of a text, or that could not send a text as a whole.
The runs after it send the rest."""
SAYING = "saying"
"""`RunRecord.stop` of a run that sends words while the model writes more. The value is replaced at
the end of the run. If the process ends during the run, it stays."""
WORDS = frozenset({SAID, SAID_BESIDE, SAID_PART, SAYING})
"""The values of `RunRecord.stop` of runs that sent the model's text."""
ANSWERED = "answered"
"""`RunRecord.stop` of a run of native calls that all got their answers."""

PRINTED = "printed"
"""`RunRecord.stop` of code that finished and printed something for the model."""
CUT_OFF = "cut_off"
"""`RunRecord.stop` of a run that the end of the process cut off. The next process writes this
value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """The cost of a step. ``started`` is in seconds since 1970, ``money`` in the operator's
    currency."""

    started: float
    seconds: float
    usage: RequestUsage
    model: str
    money: float = 0.0
    price_source: str = PriceSource.UNKNOWN


def _mark_retrieved(written: asyncio.Future[Any]) -> None:
    """Keep asyncio from logging a failure for which nobody waits, because the turn is over."""
    if not written.cancelled():
        written.exception()


class SharedWrite(Awaitable[_Written]):
    """A write whose outcome several tasks may await. If one of them is cancelled, the others still
    get the outcome.

    Without this class, the cancellation of a task also cancels the future that the task awaits. For
    example, the recall of a message cancels the task that waits for the turn's row. That would also
    cancel the write of the row, and a turn without a row cannot be ended.
    """

    def __init__(self, written: Awaitable[_Written]) -> None:
        self._written = asyncio.ensure_future(written)
        self._written.add_done_callback(_mark_retrieved)

    def __await__(self) -> Generator[Any, None, _Written]:
        return asyncio.shield(self._written).__await__()

    @property
    def committed(self) -> bool:
        """Whether the write was committed. False while it is under way, and if it was refused."""
        done = self._written.done() and not self._written.cancelled()
        return done and self._written.exception() is None


class TurnRecorder:
    """Records one turn. The function ``begin``, which the caller passes, writes the turn's row.
    The recorder calls it shortly after `begin_after_request`, or earlier if another method must
    write something. Code runs only after the row is written. If the process ends before that, the
    question is still unanswered in the store, and the next process finds it."""

    def __init__(
        self,
        store: Store,
        chat_key: ChatKey,
        begin: Callable[[], Awaitable[TurnRow]],
        *,
        through_seq: int,
    ) -> None:
        self._replies: dict[int, str] = {}
        """The stored replies of the turn's steps."""
        self._failed = False
        self._store = store
        self._begin = begin
        self._begun: SharedWrite[TurnRow] | None = None
        self._prompted = False
        self._turn: TurnRow | None = None
        self._refused: StoreUnavailable | None = None
        self._through = through_seq
        self._position = 0
        self._text_position = 0
        """The number of the last step that has ended. A text that is sent belongs to this step."""
        self._chat_key = chat_key

    def begin_after_request(self) -> None:
        """Write the turn's row a moment later, when the request to the model has been sent. A
        commit before that would delay the request."""
        asyncio.get_running_loop().call_later(_REQUEST_SENT_S, self._begin_now)

    def begin_row(self) -> None:
        """Begin to write the turn's row, unless this has begun. The caller need not wait."""
        self._begin_now()

    def _begin_now(self) -> SharedWrite[TurnRow]:
        if self._begun is None:
            self._begun = SharedWrite(self._begin())
        return self._begun

    async def turn_id(self) -> int:
        """Wait until the turn's row is stored, and return the turn's number. If the row cannot be
        stored, this call and every later call raise `StoreUnavailable`."""
        if self._refused is not None:
            raise self._refused
        if self._turn is None:
            try:
                self._turn = await self._begin_now()
            except StoreUnavailable as error:
                self._refused = error
                raise
        return self._turn.turn_id

    def known_turn_id(self) -> int:
        """Return the turn's number; 0 as long as the turn's row is not stored."""
        return self._turn.turn_id if self._turn is not None else 0

    @property
    def has_asked(self) -> bool:
        """Whether the turn's row is stored and the prompt of a step was made. From then on, the
        turn's row and its runs tell the next process what this process was doing."""
        return self._prompted and self._begun is not None and self._begun.committed

    async def is_begun(self) -> bool:
        """Return whether the turn's row is stored. If the row could not be stored, nothing was done
        or sent."""
        try:
            await self.turn_id()
        except StoreUnavailable:
            return False
        return True

    @property
    def through_seq(self) -> int:
        """The ``seq`` of the newest record that a step has shown to the model."""
        return self._through

    async def continue_after(self, steps: list[Step]) -> None:
        """In a resumed turn, number the new steps after these earlier steps."""
        self._replies = {step.position: step.reply for step in steps}
        self._position = max((step.position + 1 for step in steps), default=0)
        self._text_position = max(self._position - 1, 0)

    async def mark_shown(self, seq: int) -> None:
        """Store that the next step shows the records up to ``seq``."""
        self._prompted = True
        if seq > self._through:
            self._through = seq
            await self._store.turns.seen(await self.turn_id(), seq)

    async def begin_words(self, run_id: str) -> None:
        """Store that words of the running step will be sent next, while the model writes more."""
        await self._store.runs.begin(
            run_id,
            self._chat_key,
            turn_id=await self.turn_id(),
            step=self._position,
            code="",
            stop=SAYING,
        )

    async def begin_run(self, run_id: str, code: str = "", stop: str = "") -> None:
        """Store that a text of the last ended step will be sent next. ``code`` has the native calls
        that led to the text. ``stop`` is the row's value until the end of the run replaces it."""
        await self._store.runs.begin(
            run_id,
            self._chat_key,
            turn_id=await self.turn_id(),
            step=self._text_position,
            code=code,
            stop=stop,
        )

    async def save_run(self, run_id: str, code: str = "") -> Awaitable[object]:
        """Begin to store a run. The returned awaitable ends when the run is stored."""
        turn_id = await self.turn_id()
        return SharedWrite(
            self._store.runs.begin(
                run_id, self._chat_key, turn_id=turn_id, step=self._position, code=code
            )
        )

    def save_calls(self, run_id: str, calls: Sequence[ToolCall]) -> object:
        """Begin to store calls that have begun or ended. The next process reads them after a
        restart."""
        return self._store.runs.add_calls(run_id, calls)

    async def _save_unsaved(self, run_id: str, calls: RunCalls) -> None:
        if unsaved := calls.take_unsaved():
            await self._store.runs.add_calls(run_id, unsaved)

    async def end_words(self, run_id: str, stop: str = SAID, code: str | None = None) -> None:
        """Store that a run without code has ended: its text was sent, or sending it failed.
        ``code`` are the native calls that led to the text; None keeps the stored value."""
        await self._store.runs.end(run_id, output="", stop=stop, seconds=0.0, code=code)

    async def end_calls(self, run_id: str, calls: RunCalls, output: str, seconds: float) -> None:
        """Store that a run of native calls has ended, and the calls' answers. ``seconds`` is how
        long it took."""
        await self._save_unsaved(run_id, calls)
        await self._store.runs.end(run_id, output=output, stop=ANSWERED, seconds=seconds)

    async def end_run(self, run_id: str, reply: ModelReply, calls: RunCalls) -> None:
        """Store that the code of a run has ended, and its result."""
        result = reply.result
        self._failed = self._failed or result is None or bool(result.error)
        stop = result.stop.value if result else "box_lost"
        await self._save_unsaved(run_id, calls)
        await self._store.runs.end(
            run_id,
            code=reply.code,
            output=result.output if result else "",
            stop=PRINTED if reply.shows else stop,
            error=result.error if result else str(reply.box_error or ""),
            seconds=result.seconds if result else 0.0,
        )

    async def cut_run(self, run_id: str, calls: RunCalls) -> None:
        """Store that a run was cancelled. The code that was stored at its beginning stays."""
        await self._save_unsaved(run_id, calls)
        await self._store.runs.end(run_id, output="", stop="cancelled", seconds=0.0)

    async def end_step(
        self,
        kept: str,
        tail: str,
        cost: StepCost,
        watch: StepWatch,
        sources: PromptSources,
        *,
        error: str = "",
    ) -> None:
        """Store a reply, its cost, and what the model was shown. ``kept`` is the part of the reply
        that was used, and ``tail`` is the rest, which did not run. ``watch`` has the request that
        was sent, ``sources`` the texts and records from which it was made. ``error`` says why no
        part of the reply was used."""
        turn_id = await self.turn_id()
        step = Step(
            position=self._position,
            reply=kept + tail,
            tail=tail,
            model=cost.model,
            prompt_tokens=cost.usage.prompt_tokens,
            cached_tokens=cost.usage.cached_tokens,
            completion_tokens=cost.usage.completion_tokens,
            estimated=cost.usage.estimated,
            cost=cost.money,
            price_source=cost.price_source,
            started=cost.started,
            seconds=cost.seconds,
        )
        statement = self._store.turns.step_statement(turn_id, step)
        await self._save_prompt(turn_id, watch, sources, error=error, beside=[statement])
        self._replies[self._position] = step.reply
        self._text_position = self._position
        self._position += 1

    async def end_without_reply(self, watch: StepWatch, sources: PromptSources, error: str) -> None:
        """Store what the model was shown, and why the model gave no reply. If the store fails, the
        error is only logged."""
        self._failed = True
        self._text_position = self._position
        try:
            await self._save_prompt(await self.turn_id(), watch, sources, error=error)
        except StoreUnavailable as failure:
            logger.warning("{}: a prompt is not stored: {}", self._chat_key, failure)

    async def _save_prompt(
        self,
        turn_id: int,
        watch: StepWatch,
        sources: PromptSources,
        *,
        error: str = "",
        beside: Sequence[SqlStatement] = (),
    ) -> None:
        recipe, parts = watch.describe(sources, self._replies)
        row = PromptRow(
            turn_id=turn_id,
            position=self._position,
            chat_key=str(self._chat_key),
            recipe=recipe,
            times=watch.times(),
            error=error,
        )
        await self._store.prompts.add(row, parts, beside=beside)

    async def sent(self) -> list[DeliveryRow]:
        """Get all messages that the turn has sent so far."""
        return await self._store.deliveries.of_turn(await self.turn_id())

    async def sent_in_run(self, run_id: str) -> list[DeliveryRow]:
        """Get the messages of one run."""
        return await self._store.deliveries.of_run(run_id)

    async def end(
        self, stop: str, waiting_seq: int | None = None, *, only_asked: bool = False
    ) -> None:
        """Store that the turn has ended; see `TurnRepository.end`."""
        await self._store.turns.end(
            await self.turn_id(),
            stop=stop,
            waiting_seq=waiting_seq,
            only_asked=only_asked,
            failed=self._failed or stop not in NORMAL_STOPS,
        )
