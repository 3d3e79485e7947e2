"""Shows turns: what happened at which time, and what the model was shown. Repeats turns, for
example with another model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from nekro_core.agent.replay.recorded_calls import ReplayedCall
from nekro_core.agent.replay.replay import ReplayChanges, ReplayResult, TurnReplayer
from nekro_core.agent.shown.viewer import PromptViewer, ShownSection, StepPrompt
from nekro_core.chat import ChatKey, DeliveryState, plain_text
from nekro_core.llm.dialect import body_text
from nekro_core.llm.model import ChatModel
from nekro_core.operator.actions import NO_PROGRESS, Area, Progress, action, query
from nekro_core.operator.audit import AuditLog, Change
from nekro_core.operator.elsewhere import ProcessChoice
from nekro_core.operator.errors import NoSuchItem
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.policy.settings import Mode
from nekro_core.store import LoggedTurn, Store, TurnFilter
from nekro_core.store.turn_trace import RunTrace, StepTrace, TraceSpan, TurnTrace

MAX_ASKED = 500
"""Maximum number of characters of the message that woke a turn, in a list."""

TurnId = Annotated[int, Field(ge=1, le=2**62)]
Text = Annotated[str, Field(max_length=255)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """A turn in a list.

    Attributes:
        turn_id: The turn's number.
        chat_key: The chat.
        user_id: The platform's id of the person whom it answered; empty for a timer or a webhook.
        asked: The message that woke the turn, cut off at `MAX_ASKED` characters; empty if the
            message was recalled or is no longer stored.
        running: Whether it runs now.
        stop: Why it ended, in one word.
        failed: Whether anything in it failed: a run, a request, or the turn itself.
        model: The model that wrote its replies.
        steps: The number of replies.
        prompt_tokens: Tokens of its requests.
        completion_tokens: Tokens of its replies.
        cost: In the operator's currency; the part ``published_cost`` is in US dollars.
        published_cost: The part of ``cost`` that is estimated from published prices.
        unpriced: Requests whose price is not known. They count as 0 in ``cost``.
        started: Seconds since 1970.
        ended: Seconds since 1970; 0 while it runs.
    """

    turn_id: int
    chat_key: ChatKey
    user_id: str
    asked: str
    running: bool
    stop: str
    failed: bool
    model: str
    steps: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    published_cost: float = 0.0
    unpriced: int = 0
    started: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCallView:
    """A call of a tool. ``outcome`` is ``ok`` or the error; empty while it runs. ``result`` is
    JSON, empty if it was not recorded."""

    name: str
    arguments: str
    outcome: str
    result: str
    started: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSendView:
    """A message of a turn, or a part of one."""

    delivery_id: str
    state: DeliveryState
    text: str
    reason: str
    created: float
    changed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRunView:
    """A run of code, or the native calls of a step, with the calls and messages."""

    run_id: str
    step: int
    code: str
    output: str
    stop: str
    error: str
    started: float
    seconds: float
    calls: list[TurnCallView]
    sends: list[TurnSendView]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDetails:
    """The trace of a turn. Times are seconds since 1970.

    Attributes:
        turn: The turn as in the list.
        why: Why the bot decided to answer: a `nekro_core.store.DecisionReason`; empty if that is
            not stored.
        why_detail: The name or the plugin because of which the bot answered; empty for other
            reasons.
        arrived: When the message arrived; None if it was not measured.
        decided: When the bot had waited for the person to type more; None if it was not measured.
        began: When the turn got its slot.
        steps: The replies with their times. `Turns.shown` returns the prompt of a step with
            ``has_prompt``.
        runs: The runs, in order.
        spans: The bars of the waterfall, sorted by their beginning.
    """

    turn: TurnView
    why: str
    why_detail: str
    arrived: float | None
    decided: float | None
    began: float
    steps: list[StepTrace]
    runs: list[TurnRunView]
    spans: list[TraceSpan]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPromptView:
    """What the model was shown in one step. See `nekro_core.agent.shown.viewer.StepPrompt`."""

    turn_id: int
    position: int
    sections: list[ShownSection]
    body: Mapping[str, Any]
    exact: bool
    tokens: int
    unchanged_tokens: int
    previous: tuple[int, int] | None
    error: str

    @property
    def json(self) -> bytes:
        """The body as bytes. If ``exact``, these are the bytes that were sent."""
        return body_text(self.body).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReplayView:
    """A repeated turn and the original turn. Nothing of ``replayed`` was sent or stored. ``notes``
    say what was different from the first time, although the person who repeated the turn did not
    choose it."""

    original: TurnDetails
    replayed: TurnDetails
    prompts: list[ShownPromptView]
    model: str
    mode: str
    stop: str
    calls: list[ReplayedCall]
    sends: list[str]
    prompt_tokens: int
    completion_tokens: int
    cost: float
    seconds: float
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnChoices:
    """The values for the filters: the reasons and models that occur in the stored turns."""

    stops: list[str]
    models: list[str]


class Turns(Area):
    """The turns of all chats.

    Args:
        audit: The audit log.
        store: The database.
        viewer: Rebuilds the prompts of stored steps.
        replayer: Repeats turns.
        model: Returns a model by the name of its group; ``default`` is the bot's model.
    """

    name = "turns"

    def __init__(
        self,
        audit: AuditLog,
        store: Store,
        viewer: PromptViewer,
        replayer: TurnReplayer,
        model: Callable[[str], ChatModel | None],
    ) -> None:
        super().__init__(audit)
        self._store = store
        self._viewer = viewer
        self._replayer = replayer
        self._model = model

    async def chat_of(self, parameters: Mapping[str, Any]) -> ChatKey | None:
        """See `Area.chat_of`. Raises `NoSuchItem`.

        Args:
            parameters: The validated parameters of the operation.

        Returns:
            The chat of the turn.
        """
        turn_id: int = parameters["turn_id"]
        logged = await self._store.turn_log.one(turn_id)
        if logged is None:
            raise _no_turn(turn_id)
        return logged[0].turn.chat_key

    @query(role=AccessRole.VIEWER)
    async def list(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey | None = None,
        user_id: Text = "",
        model: Text = "",
        stop: Text = "",
        failed: bool | None = None,
        since: float = 0.0,
        until: float = 0.0,
        before: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1, le=200)] = 50,
    ) -> list[TurnView]:
        """List turns, newest first.

        Args:
            chat_key: Only turns of this chat.
            user_id: Only turns that answered this person: the platform's id.
            model: Only turns of this model.
            stop: Only turns that ended for this reason.
            failed: True for turns in which something failed, False for turns without a failure,
                None for all turns.
            since: Only turns that began at this time or later, in seconds since 1970.
            until: Only turns that began before this time, in seconds since 1970; 0 for now.
            before: A turn's number: list only turns before this turn.
            limit: The largest number of turns.
        """
        wanted = TurnFilter(
            chat_key=chat_key,
            user_id=user_id,
            model=model,
            stop=stop,
            failed=failed,
            since=since,
            until=until,
        )
        return [
            _view(each)
            for each in await self._store.turn_log.listed(wanted, before=before, limit=limit)
        ]

    @query(role=AccessRole.VIEWER)
    async def choices(self, actor: Actor) -> TurnChoices:  # noqa: ARG002
        """Get the values by which turns can be filtered."""
        return TurnChoices(
            stops=await self._store.turn_log.different("stop"),
            models=await self._store.turn_log.different("model"),
        )

    @query(role=AccessRole.VIEWER)
    async def one(self, actor: Actor, *, turn_id: TurnId) -> TurnDetails:  # noqa: ARG002
        """Get the trace of a turn: what happened when, the code, its output, calls and messages.

        Args:
            turn_id: The turn's number.
        """
        trace = await self._store.turn_traces.get(turn_id)
        logged = await self._store.turn_log.one(turn_id)
        if trace is None or logged is None:
            raise _no_turn(turn_id)
        return _details(trace, _view(logged[0]), await self._detail_of(trace))

    @query(role=AccessRole.VIEWER)
    async def shown(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        turn_id: TurnId,
        step: Annotated[int, Field(ge=0)] = 0,
    ) -> ShownPromptView:
        """Get what the model was shown in a step, by section.

        Args:
            turn_id: The turn's number.
            step: The step's number, from 0.
        """
        prompt = await self._viewer.shown(turn_id, step)
        if prompt is None:
            raise NoSuchItem(
                f"nothing was kept of what the model was shown in step {step} of turn {turn_id}: "
                "the turn is from before the bot kept it, or it was erased, or deleted because of "
                "its age"
            )
        return _prompt(prompt)

    @action(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
    async def replay(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        turn_id: TurnId,
        model: Text = "",
        persona: Annotated[str, Field(max_length=20_000)] | None = None,
        mode: Mode | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> Change[TurnReplayView]:
        """Repeat a turn without effects: no plugin runs, and nothing is sent or stored. The model
        is asked again, which may cost money.

        Args:
            turn_id: The turn's number.
            model: The name of the model group that answers; by default the chat's model.
            persona: The persona; by default the chat's.
            mode: ``code`` or ``tools``; by default the chat's.
        """
        chosen = self._model(model) if model else None
        if model and chosen is None:
            raise NoSuchItem(f"there is no model group {model!r} for chats")
        changes = ReplayChanges(model=chosen, persona=persona, mode=mode)
        result = await self._replayer.replay(turn_id, changes, report=progress.report)
        logged = await self._store.turn_log.one(turn_id)
        if logged is None:
            raise NoSuchItem(f"turn {turn_id} was deleted meanwhile")
        detail = await self._detail_of(result.original)
        view = _replayed(result, _view(logged[0]), detail)
        return Change(result=view, subject=str(turn_id), new=view.model)

    async def _detail_of(self, trace: TurnTrace) -> str:
        """Return the detail of the decision to answer the message that woke the turn."""
        line = await self._store.chat_list.line(trace.turn.trigger_seq)
        decision = line.decision if line else None
        return decision.detail if decision and decision.reason.value == trace.why else ""


def _no_turn(turn_id: int) -> NoSuchItem:
    return NoSuchItem(f"there is no turn {turn_id}; old turns are deleted")


def _view(logged: LoggedTurn) -> TurnView:
    turn, usage, asked = logged.turn, logged.usage, logged.asked
    return TurnView(
        turn_id=turn.turn_id,
        chat_key=turn.chat_key,
        user_id=turn.user_id,
        asked=plain_text(asked.segments)[:MAX_ASKED] if asked and not asked.recalled else "",
        running=turn.running,
        stop=turn.stop,
        failed=turn.failed,
        model=turn.model or logged.model,
        steps=usage.steps,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost=usage.cost,
        published_cost=usage.published_cost,
        unpriced=usage.unpriced,
        started=turn.started,
        ended=turn.ended,
    )


def _details(trace: TurnTrace, turn: TurnView, why_detail: str = "") -> TurnDetails:
    return TurnDetails(
        turn=turn,
        why=trace.why,
        why_detail=why_detail,
        arrived=trace.arrived,
        decided=trace.decided,
        began=trace.began,
        steps=[*trace.steps],
        runs=[_run(each) for each in trace.runs],
        spans=[*trace.spans],
    )


def _run(run: RunTrace) -> TurnRunView:
    return TurnRunView(
        run_id=run.run_id,
        step=run.step,
        code=run.code,
        output=run.output,
        stop=run.stop,
        error=run.error,
        started=run.started,
        seconds=run.seconds,
        calls=[
            TurnCallView(
                name=call.name,
                arguments=call.arguments,
                outcome=call.outcome,
                result=call.result,
                started=call.started,
                seconds=call.seconds,
            )
            for call in run.calls
        ],
        sends=[
            TurnSendView(
                delivery_id=row.delivery_id,
                state=row.state,
                text=plain_text(row.segments),
                reason=row.reason,
                created=row.created,
                changed=row.changed,
            )
            for row in run.sends
        ],
    )


def _prompt(prompt: StepPrompt) -> ShownPromptView:
    return ShownPromptView(
        turn_id=prompt.turn_id,
        position=prompt.position,
        sections=[*prompt.sections],
        body=prompt.body,
        exact=prompt.exact,
        tokens=prompt.tokens,
        unchanged_tokens=prompt.unchanged_tokens,
        previous=prompt.previous,
        error=prompt.error,
    )


def _replayed(result: ReplayResult, original: TurnView, why_detail: str) -> TurnReplayView:
    trace, usage = result.replayed, result.usage
    turn = TurnView(
        turn_id=original.turn_id,
        chat_key=original.chat_key,
        user_id=original.user_id,
        asked=original.asked,
        running=False,
        stop=result.stop,
        failed=trace.turn.failed,
        model=result.model,
        steps=usage.steps,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost=usage.cost,
        published_cost=usage.published_cost,
        unpriced=usage.unpriced,
        started=trace.turn.started,
        ended=trace.turn.ended,
    )
    return TurnReplayView(
        original=_details(result.original, original, why_detail),
        replayed=_details(trace, turn),
        prompts=[_prompt(each) for each in result.prompts],
        model=result.model,
        mode=result.mode,
        stop=result.stop,
        calls=[*result.calls],
        sends=[plain_text(each) for each in result.sends],
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost=usage.cost,
        seconds=result.seconds,
        notes=[*result.notes],
    )
