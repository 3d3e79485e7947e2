"""Reads the trace of a turn: what happened in the turn, and at which times. The console draws the
trace as a waterfall chart.

The times come from the rows that a turn writes anyway. Two rows have times as JSON:

- ``turns.times``: ``at`` (seconds since 1970 at which the turn got its slot, because only some
turns run at the same time), ``arrived`` and ``decided`` (milliseconds from ``at``, so they are
negative), and ``why`` the trigger decided to answer.
- ``prompts.times``: ``at`` (seconds since 1970 at which the step began), and in milliseconds after
  it: ``made`` (the prompt), ``sent`` (each request), ``first`` (part of the reply), ``replied``,
  ``run`` (the code's run started), ``code`` (line, sent, ended of each piece of code) and ``end``.
  If models of a chain failed, ``model`` is the name of the one that answered, and ``passed`` has
  name, reason, error and milliseconds of each other model.

Turns from before these columns existed have only the other times of their rows.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from nekro_core.chat import DeliveryState, plain_text
from nekro_core.store.database import Database, Row
from nekro_core.store.deliveries import DeliveryRepository
from nekro_core.store.runs import RunRepository
from nekro_core.store.turns import TurnRepository
from nekro_core.store.values import DeliveryRow, Step, ToolCall, TurnRow

SpanKind = Literal[
    "person", "slot", "prompt", "request", "reply", "run", "statement", "call", "send", "step"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan:
    """A bar of the waterfall: something that took time in the turn. Times are seconds since 1970.
    ``end`` is None if it has not ended. ``step`` is -1 before the first step. ``failed`` says
    whether it failed. ``detail`` has the arguments of a call, the text of a message, or the first
    line of a piece of code."""

    kind: SpanKind
    label: str
    begin: float
    end: float | None
    step: int = -1
    failed: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementTrace:
    """A piece of the reply's code that was executed as soon as it had arrived. ``line`` is its
    first line in the reply."""

    line: int
    sent: float
    ended: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTrace:
    """A run with its calls and its sends (the rows of the messages that it sent). ``stop`` is empty
    while it runs."""

    run_id: str
    step: int
    code: str
    output: str
    stop: str
    error: str
    started: float
    seconds: float
    calls: tuple[ToolCall, ...]
    sends: tuple[DeliveryRow, ...]


@dataclass(frozen=True, slots=True)
class PassedTrace:
    """A model of a chain that did not answer a step: the name of its group, why it did not answer
    (`nekro_core.llm.model.PassReason`), its error, and how many seconds the bot waited for it."""

    name: str
    reason: str
    error: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrace:
    """A step. Times are seconds since 1970. A time is None if the thing did not happen or was not
    measured.

    Attributes:
        position: Its number in the turn, from 0.
        step: The reply and its cost; None if there was no reply.
        error: Why there was no reply.
        began: When the step began.
        prompt_made: When the prompt was ready. If it was prepared before the turn, this is
            ``began``.
        requests: When each request was sent. There is more than one if the request was tried again.
        first_token: When the first part of the reply arrived.
        replied: When the whole reply had arrived.
        ended: When the step and its code had ended.
        statements: The pieces of the code that were executed as they arrived.
        has_prompt: Whether `PromptViewer.shown` can show the prompt.
        answered: The name of the model that answered, if other models of the chain did not answer
            before it; otherwise empty.
        passed: The models of the chain that did not answer.
    """

    position: int
    step: Step | None
    error: str = ""
    began: float
    prompt_made: float | None = None
    requests: tuple[float, ...] = ()
    first_token: float | None = None
    replied: float | None = None
    ended: float | None = None
    statements: tuple[StatementTrace, ...] = ()
    has_prompt: bool = False
    answered: str = ""
    passed: tuple[PassedTrace, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTrace:
    """A turn with all that is known about it. Times are seconds since 1970; None if not known.

    Attributes:
        turn: The turn's row.
        why: Why the trigger decided to answer: ``private``, ``addressed``, ``named`` ...
        arrived: When the message that woke the turn arrived.
        decided: When the bot had waited for the person to type more, and decided to answer.
        began: When the turn got its slot.
        steps: Its steps, in order.
        runs: Its runs, in order, with calls and sends.
    """

    turn: TurnRow
    why: str
    arrived: float | None
    decided: float | None
    began: float
    steps: tuple[StepTrace, ...]
    runs: tuple[RunTrace, ...]

    @property
    def spans(self) -> tuple[TraceSpan, ...]:
        """The bars of the waterfall, sorted by their beginning."""
        return tuple(sorted(self._spans(), key=lambda each: (each.begin, -(each.end or 0.0))))

    def _spans(self) -> Iterator[TraceSpan]:
        if self.arrived is not None and self.decided is not None:
            yield TraceSpan(kind="person", label=self.why, begin=self.arrived, end=self.decided)
            yield TraceSpan(kind="slot", label="", begin=self.decided, end=self.began)
        for step in self.steps:
            yield from _step_spans(step)
        for run in self.runs:
            yield from _run_spans(run)


def _step_spans(step: StepTrace) -> Iterator[TraceSpan]:
    at, failed = step.position, bool(step.error)
    model = step.step.model if step.step else ""
    yield TraceSpan(
        kind="step", label=model, begin=step.began, end=step.ended, step=at, failed=failed
    )
    if step.prompt_made is not None:
        yield TraceSpan(kind="prompt", label="", begin=step.began, end=step.prompt_made, step=at)
    for begin, end in zip(
        step.requests, (*step.requests[1:], step.first_token or step.ended), strict=False
    ):
        yield TraceSpan(kind="request", label=model, begin=begin, end=end, step=at, failed=failed)
    if step.first_token is not None:
        yield TraceSpan(
            kind="reply", label=model, begin=step.first_token, end=step.replied, step=at
        )
    for each in step.statements:
        yield TraceSpan(
            kind="statement",
            label=f"line {each.line}",
            begin=each.sent,
            end=each.ended,
            step=at,
            failed=each.ended is None,
            detail=_line(step.step, each.line),
        )


def _line(step: Step | None, line: int) -> str:
    lines = step.reply.splitlines() if step else []
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def _run_spans(run: RunTrace) -> Iterator[TraceSpan]:
    ended = run.started + run.seconds if run.stop else None
    failed = bool(run.error)
    yield TraceSpan(
        kind="run", label=run.stop, begin=run.started, end=ended, step=run.step, failed=failed
    )
    for call in run.calls:
        yield TraceSpan(
            kind="call",
            label=call.name,
            begin=call.started,
            end=call.started + call.seconds if call.outcome else None,
            step=run.step,
            failed=call.outcome not in ("", "ok"),
            detail=call.arguments,
        )
    for row in run.sends:
        over = row.state not in (DeliveryState.PENDING, DeliveryState.SENDING)
        yield TraceSpan(
            kind="send",
            label=row.delivery_id,
            begin=row.created,
            end=row.changed if over else None,
            step=run.step,
            failed=row.state in (DeliveryState.REJECTED, DeliveryState.DROPPED),
            detail=plain_text(row.segments),
        )


class TurnTraceRepository:
    """Reads traces. Raises `StoreUnavailable`."""

    def __init__(
        self,
        database: Database,
        *,
        turns: TurnRepository,
        runs: RunRepository,
        deliveries: DeliveryRepository,
    ) -> None:
        self._database = database
        self._turns = turns
        self._runs = runs
        self._deliveries = deliveries

    async def get(self, turn_id: int) -> TurnTrace | None:
        """Get the trace of a turn; None if there is no such turn."""
        rows = await self._database.read("SELECT times FROM turns WHERE id = ?", turn_id)
        turn = await self._turns.get(turn_id)
        if turn is None or not rows:
            return None
        times = _times(rows[0]["times"])
        began = float(times.get("at", turn.started))
        return TurnTrace(
            turn=turn,
            why=str(times.get("why", "")),
            arrived=_moment(began, times.get("arrived")),
            decided=_moment(began, times.get("decided")),
            began=began,
            steps=await self._steps(turn_id),
            runs=await self._runs_of(turn_id),
        )

    async def _steps(self, turn_id: int) -> tuple[StepTrace, ...]:
        steps = {step.position: step for step in await self._turns.steps(turn_id)}
        rows = await self._database.read(
            "SELECT position, times, error, recipe <> '' AS shown FROM prompts WHERE turn_id = ?",
            turn_id,
        )
        prompts = {row["position"]: row for row in rows}
        return tuple(
            _step_trace(position, steps.get(position), prompts.get(position))
            for position in sorted(steps.keys() | prompts.keys())
        )

    async def _runs_of(self, turn_id: int) -> tuple[RunTrace, ...]:
        rows = await self._database.read(
            "SELECT * FROM runs WHERE turn_id = ? ORDER BY step, started", turn_id
        )
        sends: dict[str, list[DeliveryRow]] = {}
        for row in await self._deliveries.of_turn(turn_id):
            sends.setdefault(row.run_id, []).append(row)
        return tuple(
            [
                RunTrace(
                    run_id=row["run_id"],
                    step=row["step"],
                    code=row["code"],
                    output=row["output"],
                    stop=row["stop"],
                    error=row["error"],
                    started=row["started"],
                    seconds=row["seconds"],
                    calls=tuple(await self._runs.calls(row["run_id"])),
                    sends=tuple(sends.get(row["run_id"], ())),
                )
                for row in rows
            ]
        )


def begin_times(
    why: str, wall: float, clock: float, *, arrived: float | None, decided: float
) -> str:
    """Return ``turns.times`` for a turn that begins now. ``arrived`` and ``decided`` are on the
    monotonic ``clock``."""
    times: dict[str, Any] = {"at": round(wall, 3), "why": why}
    if arrived is not None:
        times["arrived"] = round((arrived - clock) * 1000, 1)
    times["decided"] = round((decided - clock) * 1000, 1)
    return json.dumps(times, separators=(",", ":"))


def _step_trace(position: int, step: Step | None, row: Row | None) -> StepTrace:
    times = _times(row["times"] if row else "")
    began = float(times.get("at", step.started if step else 0.0))
    if not times and step is not None:
        return StepTrace(
            position=position, step=step, began=began, ended=step.started + step.seconds
        )
    return StepTrace(
        position=position,
        step=step,
        error=row["error"] if row else "",
        began=began,
        prompt_made=_moment(began, times.get("made")),
        requests=tuple(began + each / 1000 for each in times.get("sent", ())),
        first_token=_moment(began, times.get("first")),
        replied=_moment(began, times.get("replied")),
        ended=_moment(began, times.get("end")),
        statements=tuple(
            StatementTrace(line=line, sent=began + sent / 1000, ended=_moment(began, ended))
            for line, sent, ended in times.get("code", ())
        ),
        has_prompt=bool(row["shown"]) if row else False,
        answered=str(times.get("model", "")),
        passed=tuple(PassedTrace(*each) for each in times.get("passed", ())),
    )


def _times(text: str) -> dict[str, Any]:
    times: dict[str, Any] = json.loads(text) if text else {}
    return times


def _moment(began: float, milliseconds: float | None) -> float | None:
    return None if milliseconds is None else began + milliseconds / 1000
