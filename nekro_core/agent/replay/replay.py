"""Repeats a turn without effects, and returns the repeated turn beside the original turn.

The turn runs on a database in memory, which has the records that the original turn saw. Its box has
copies of the files that the chat's box saved last. No plugin runs: calls get recorded results (see
`recorded_calls`), the prompt gets the texts that plugins added to the original prompt, and messages
are shown instead of sent. The model's cost is stored as a use of the plugin ``operator``.
"""

import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio

from nekro_core.agent.prompt.discovery import ToolDiscovery
from nekro_core.agent.prompt.line_marks import ANSWER, ANSWER_LATER, task_of
from nekro_core.agent.replay.recorded_calls import RecordedCalls, ReplayedCall
from nekro_core.agent.replay.stand_ins import (
    ReplayPlugins,
    ReplayPolicies,
    ShownPlatform,
    UnhookedModel,
)
from nekro_core.agent.shown.viewer import PromptViewer, StepPrompt, UnknownPromptForm
from nekro_core.agent.turn.context import HistoryMarks, TurnRequest
from nekro_core.agent.turn.native_turn import NativeTurn
from nekro_core.agent.turn.notices import NoticeSender
from nekro_core.agent.turn.prepared_step import uses_native_calls
from nekro_core.agent.turn.recorder import TurnRecorder
from nekro_core.agent.turn.services import TurnServices
from nekro_core.agent.turn.turn import Turn
from nekro_core.chat import ChatKey, Record, Segments
from nekro_core.chat.catalogue import Catalogue
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.llm.model import ChatModel
from nekro_core.plugins.host.hooks import PromptInjection
from nekro_core.policy.settings import Mode
from nekro_core.store import ModelUse, Store, Usage
from nekro_core.store.prompt_recipe import Recipe, RecordLines, decode_recipe
from nekro_core.store.turn_trace import TurnTrace
from nekro_core.system.errors import NekroError

OPERATOR = "operator"
"""`ModelUse` counts the cost of replays under this name. For plugins it uses the plugin's key."""
_AT_ONCE = 2
"""Maximum number of replays at the same time: each needs a box."""
_SPARE_S = 30.0
"""Seconds that a replay may take in addition to the time limit of a turn."""
_LAST_WORDS_S = 5.0


class ReplayRefused(NekroError):
    """The turn cannot be repeated. The text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayChanges:
    """What is different from the original turn. For a field that is None, the chat's present policy
    decides."""

    model: ChatModel | None = None
    persona: str | None = None
    mode: Mode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """A repeated turn beside the original one.

    Attributes:
        original: The original turn.
        replayed: The repeated turn. Its numbers and deliveries exist only in the replay's database.
        prompts: What the model was shown in each step of the repeated turn.
        model: The model's name.
        mode: ``code`` or ``tools``.
        stop: Why the repeated turn ended.
        calls: The calls of the repeated turn, and how each was answered.
        sends: The messages that the repeated turn would have sent.
        usage: The requests, tokens and cost of the repeated turn.
        seconds: How long the repeated turn took, in seconds.
        notes: What could not be repeated as in the original turn.
    """

    original: TurnTrace
    replayed: TurnTrace
    prompts: tuple[StepPrompt, ...]
    model: str
    mode: Mode
    stop: str
    calls: tuple[ReplayedCall, ...]
    sends: tuple[Segments, ...]
    usage: Usage
    seconds: float
    notes: tuple[str, ...] = ()


class TurnReplayer:
    """Repeats turns, at most two at the same time. Other calls wait."""

    def __init__(self, services: TurnServices) -> None:
        self._services = services
        self._slots = anyio.CapacityLimiter(_AT_ONCE)

    async def replay(
        self,
        turn_id: int,
        changes: ReplayChanges = ReplayChanges(),
        *,
        report: Callable[[str], object] = lambda _: None,
    ) -> ReplayResult:
        """Repeat a turn. The call may be cancelled at any time; the model's cost is stored even
        then. ``report`` is called with words about each stage. Raises `ReplayRefused` and
        `StoreUnavailable`."""
        store = self._services.store
        original = await store.turn_traces.get(turn_id)
        if original is None:
            raise ReplayRefused(f"there is no turn {turn_id}")
        if original.turn.running:
            raise ReplayRefused(f"turn {turn_id} still runs: wait until it has ended")
        trigger = await store.messages.get(original.turn.trigger_seq)
        if trigger is None:
            raise ReplayRefused(
                f"the message that woke turn {turn_id} is no longer stored: it was erased, or "
                "deleted because of its age"
            )
        report("waiting for a free place")
        async with self._slots, _Replaying.open(self._services, original, trigger, changes) as one:
            return await one.run(report)


class _Replaying:
    """One replay."""

    def __init__(
        self,
        services: TurnServices,
        outer: TurnServices,
        original: TurnTrace,
        request: TurnRequest,
        calls: RecordedCalls,
        notes: Sequence[str],
    ) -> None:
        self._services = services
        self._outer = outer
        self._original = original
        self._request = request
        self._calls = calls
        self._notes = tuple(notes)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        outer: TurnServices,
        original: TurnTrace,
        trigger: Record,
        changes: ReplayChanges,
    ) -> AsyncIterator["_Replaying"]:
        """Prepare a database, a box and the other services of the replay."""
        chat_key = original.turn.chat_key
        first = await _first_recipe(outer.store, original)
        calls = RecordedCalls([call for run in original.runs for call in run.calls])
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nekro-replay-"))
            store = await stack.enter_async_context(Store.open("sqlite://:memory:"))
            store.accounts = outer.store.accounts
            await _copy_history(outer, store, chat_key, first, trigger)
            platform = ShownPlatform(outer.store.accounts.adapter_of(chat_key.instance))
            activity = Broadcast()
            outbox = await stack.enter_async_context(
                Outbox(store, {platform.name: platform}, activity)
            )
            boxes = await stack.enter_async_context(outer.boxes.copy(chat_key, Path(folder)))
            injections, notes = await _injections(outer, original)
            began, now = outer.clock(), original.began
            services = TurnServices(
                store=store,
                plugins=ReplayPlugins(outer.plugins, outbox, injections),
                policies=_policies(outer, chat_key, changes),
                pictures=outer.pictures,
                boxes=boxes,
                settings=outer.settings,
                wall=lambda: now + outer.clock() - began,
                discovery=ToolDiscovery(outer.settings.prompt.found_tools),
                inbox=Inbox(store, activity, clock=outer.clock),
                outbox=outbox,
                notices=NoticeSender(outbox, Catalogue.load(), lambda: outer.settings.language),
                run_limits=outer.run_limits,
                clock=outer.clock,
                carry_out=calls.carry_out,
            )
            request = TurnRequest(
                chat_key=chat_key, trigger_record=trigger, mark=_marks(first, trigger)
            )
            yield cls(services, outer, original, request, calls, notes)

    async def run(self, report: Callable[[str], object]) -> ReplayResult:
        """Run the turn, count its cost, and compare it with the original."""
        services, request = self._services, self._request
        recorder = TurnRecorder(
            services.store,
            request.chat_key,
            partial(
                services.store.turns.begin,
                request.chat_key,
                trigger_seq=request.trigger_record.seq,
                through_seq=request.trigger_record.seq,
                user_id=request.trigger_record.sender.user_id,
                model=services.policies.of(request.chat_key).model.profile.name,
            ),
            through_seq=request.trigger_record.seq,
        )
        turn_id = await recorder.turn_id()
        natively = uses_native_calls(services, request.chat_key)
        began, stop = services.clock(), "limit_seconds"
        report("the turn runs")
        try:
            with anyio.move_on_after(services.settings.turn.max_seconds + _SPARE_S):
                stop = await (NativeTurn if natively else Turn)(services, request, recorder).run()
        finally:
            with anyio.move_on_after(_LAST_WORDS_S, shield=True):
                await self._count(turn_id)
        seconds = services.clock() - began
        await recorder.end(stop)
        return await self._result(turn_id, stop, seconds, "tools" if natively else "code")

    async def _count(self, turn_id: int) -> None:
        """Store the model's cost under `OPERATOR`."""
        for step in await self._services.store.turns.steps(turn_id):
            await self._outer.store.model_uses.add(
                ModelUse(
                    plugin=OPERATOR,
                    model=step.model,
                    prompt_tokens=step.prompt_tokens,
                    completion_tokens=step.completion_tokens,
                    cached_tokens=step.cached_tokens,
                    estimated=step.estimated,
                    cost=step.cost,
                    price_source=step.price_source,
                    started=self._outer.wall() - step.seconds,
                    seconds=step.seconds,
                )
            )

    async def _result(self, turn_id: int, stop: str, seconds: float, mode: Mode) -> ReplayResult:
        store = self._services.store
        replayed = await store.turn_traces.get(turn_id)
        assert replayed is not None, "its row was stored"
        viewer = PromptViewer(store, self._services.pictures)
        prompts = [await viewer.shown(turn_id, each.position) for each in replayed.steps]
        sends = await store.deliveries.of_turn(turn_id)
        return ReplayResult(
            original=self._original,
            replayed=replayed,
            prompts=tuple(each for each in prompts if each is not None),
            model=self._services.policies.of(self._request.chat_key).model.profile.name,
            mode=mode,
            stop=stop,
            calls=tuple(self._calls.made),
            sends=tuple(row.segments for row in sends),
            usage=await store.turns.usage(since=0.0),
            seconds=seconds,
            notes=self._notes,
        )


async def _first_recipe(store: Store, original: TurnTrace) -> Recipe | None:
    rows = await store.prompts.of_turn(original.turn.turn_id)
    return decode_recipe(rows[0].recipe) if rows else None


async def _copy_history(
    outer: TurnServices, store: Store, chat_key: ChatKey, first: Recipe | None, trigger: Record
) -> None:
    """Copy the records that the first prompt of the turn could show."""
    newest = max((first.seqs if first else set()) | {trigger.seq})
    records = await outer.store.messages.newest(
        chat_key,
        outer.settings.prompt.history,
        before=newest + 1,
        since=min(first.seqs if first else (), default=0),
    )
    if trigger.seq not in {record.seq for record in records}:
        records = [trigger, *records]
    store.messages.skip_to(newest)
    for record in records:
        await store.messages.add(
            record, unique_id=record.message_id or None, before=store.chats.seen(chat_key)
        )
    # Prompts show the code of past answers, so copy the runs that sent these records.
    sent = dict.fromkeys(record.run_id for record in records if record.run_id)
    for number, runs in enumerate(await outer.store.runs.of_same_turns(sent), 1):
        for step, run in enumerate(runs):
            # The number is negative, so it is not the number of a turn of the replay.
            await store.runs.begin(run.run_id, chat_key, code=run.code, turn_id=-number, step=step)
            await store.runs.end(
                run.run_id, output=run.output, stop=run.stop, error=run.error, seconds=run.seconds
            )


def _marks(first: Recipe | None, trigger: Record) -> Callable[[Sequence[Record]], HistoryMarks]:
    """Return a function that gives the records the marks of the original prompt."""
    marks = {
        seq: mark
        for piece in (first.pieces() if first else ())
        if isinstance(piece, RecordLines)
        for seq, _, mark in piece.lines()
    }
    unanswered = frozenset(seq for seq, mark in marks.items() if task_of(mark) == ANSWER) or {
        trigger.seq
    }
    waiting = frozenset(seq for seq, mark in marks.items() if task_of(mark) == ANSWER_LATER)
    found = HistoryMarks(unanswered=frozenset(unanswered), waiting=waiting)
    return lambda _records: found


async def _injections(
    outer: TurnServices, original: TurnTrace
) -> tuple[list[PromptInjection], list[str]]:
    """Return the texts that plugins added to the first prompt of the original turn, and notes about
    the texts that are no longer stored."""
    turn_id = original.turn.turn_id
    shown = None
    if original.steps:
        viewer = PromptViewer(outer.store, outer.pictures)
        try:
            shown = await viewer.shown(turn_id, original.steps[0].position)
        except UnknownPromptForm as error:
            return [], [f"additions of plugins are left out: {error}"]
    if shown is None:
        return [], ["the original prompt is not stored: additions of plugins are left out"]
    found, notes = [], []
    for section in shown.sections:
        plugin = section.kind.removeprefix("plugin ")
        if plugin == section.kind:
            continue
        if section.gap:
            notes.append(f"the addition of {plugin} to the prompt is {section.gap}")
        else:
            found.append(PromptInjection(plugin, section.text.removeprefix(f"[{plugin}]\n")))
    if shown.gaps:
        notes.append("parts of the original prompt are no longer stored")
    return found, notes


def _policies(outer: TurnServices, chat_key: ChatKey, changes: ReplayChanges) -> ReplayPolicies:
    policy = outer.policies.of(chat_key)
    changed = replace(
        policy,
        model=UnhookedModel(changes.model or policy.model),
        persona=policy.persona if changes.persona is None else changes.persona,
        mode=changes.mode or policy.mode,
    )
    return ReplayPolicies(outer.policies, changed)
