"""Decides whether an interrupted turn of an earlier process is resumed, and ends it if not."""

from collections.abc import Sequence
from dataclasses import dataclass

from nekro_core.agent.session.backlog import Backlog
from nekro_core.agent.session.record_takes import GIVEN_UP, RecordTakes
from nekro_core.agent.session.services import SessionServices
from nekro_core.agent.session.turn_decisions import ended_decision
from nekro_core.agent.turn.already_sent import was_answered
from nekro_core.agent.turn.recorder import CUT_OFF
from nekro_core.agent.turn.report import DO_NOT_RESEND
from nekro_core.chat import Author, ChatKey, Record, RunRecord
from nekro_core.policy import ChatState
from nekro_core.store import TurnRow

_MOST_ATTEMPTS = 20
"""Maximum number of times that a turn is started. Without this limit, a turn that kills the process
would be resumed again and again."""
_MOST_CUT_RUNS = 5
"""A turn is given up if this many of its runs were cut off by the end of the process, because the
runs may have killed the process. A turn whose process ended before any code ran is resumed."""
_SUSPECT_CUT_RUNS = 2
"""A turn with at least this many cut-off runs is resumed only while no other such turn runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumableTurn:
    """A turn that may be resumed, woken by the record ``trigger``. If it is a ``suspect``, it may
    have ended processes, and no other such turn may run beside it."""

    trigger: Record
    suspect: bool


class InterruptedTurns:
    """Looks at the interrupted turns of one chat."""

    def __init__(self, chat_key: ChatKey, services: SessionServices, backlog: Backlog) -> None:
        self._chat_key = chat_key
        self._services = services
        self._backlog = backlog

    async def end_unless_resumable(
        self, turn: TurnRow, takes: RecordTakes | None
    ) -> ResumableTurn | None:
        """Return the turn if it may be resumed. If it was started or cut off too often, or if too
        many owners ended while they had its trigger in hand, give it up and return None. If there
        is a `_reason_to_drop`, end it without a notice and return None."""
        store = self._services.store
        trigger = await self._record(turn.trigger_seq)
        runs = await store.runs.of_turn(turn.turn_id)
        cut_runs = sum(run.stop in ("", CUT_OFF) for run in runs)
        if trigger is not None and takes is not None and takes.is_deadly(trigger.seq):
            takes.finish_one(trigger.seq)
            await self._give_up(turn, trigger, runs, GIVEN_UP, "turn.ended_workers")
            return None
        if trigger is None or turn.attempts >= _MOST_ATTEMPTS or cut_runs >= _MOST_CUT_RUNS:
            await self._give_up(turn, trigger, runs)
            return None
        if stop := self._reason_to_drop(turn, trigger):
            waiting = self._backlog.oldest_waiting(turn.user_id)
            self._note(trigger, stop, turn)
            await store.turns.end(turn.turn_id, stop=stop, waiting_seq=waiting)
            return None
        return ResumableTurn(trigger=trigger, suspect=cut_runs >= _SUSPECT_CUT_RUNS)

    async def _give_up(
        self,
        turn: TurnRow,
        trigger: Record | None,
        runs: Sequence[RunRecord],
        reason: str = "given_up",
        notice: str = "turn.failed",
    ) -> None:
        """End a turn that is not resumed, because it was started or cut off too often, its trigger
        ended too many owners, or its trigger is no longer stored. The chat gets ``notice``, unless
        the turn has sent something. ``reason`` is the detail of the decision about the
        trigger."""
        store = self._services.store
        waiting = self._backlog.oldest_waiting(turn.user_id)
        sent = await store.deliveries.of_turn(turn.turn_id)
        stop = "finished" if was_answered(runs, sent) else "given_up"
        if trigger is not None and stop == "given_up":
            self._note(trigger, reason, turn)
        await store.turns.end(turn.turn_id, stop=stop, waiting_seq=waiting)
        if not any(row.state in DO_NOT_RESEND for row in sent):
            records = [trigger] if trigger else []
            await self._services.notices.send(self._chat_key, records, notice)

    def _reason_to_drop(self, turn: TurnRow, trigger: Record) -> str:
        """Return in one word why a turn is not resumed; empty if it is resumed."""
        if trigger.recalled:
            return "recalled"
        if self._services.wall() - turn.started > self._services.trigger.recover_age_s:
            return "too_old"
        if self._services.policies.of(self._chat_key).state is not ChatState.ON:
            return "switched_off"
        return ""

    def _note(self, trigger: Record, stop: str, turn: TurnRow) -> None:
        if trigger.author is Author.PERSON:
            decision = ended_decision(stop, turn.turn_id)
            self._services.store.decisions.note(trigger.seq, decision)

    async def _record(self, seq: int) -> Record | None:
        records = await self._services.store.messages.after(self._chat_key, seq - 1, 1)
        return records[0] if records and records[0].seq == seq else None
