"""Makes the decision about a message, which is then stored. The decision follows from why the
message's turn ended, or from why no turn began."""

from nekro_core.chat import Record
from nekro_core.policy import ChatState
from nekro_core.store import DecisionReason, MessageDecision

_ANSWERED = ("finished", "silent")
_STOPS = {
    "recalled": DecisionReason.RECALLED,
    "stopped": DecisionReason.STOPPED,
    "too_busy": DecisionReason.TOO_BUSY,
    "too_old": DecisionReason.TOO_OLD,
    "switched_off": DecisionReason.CHAT_OFF,
}
_DAY = "_day"
"""If the name of a limit ends with this, the limit is a quota of 24 hours; see
`QuotaUsage.limits`."""


def ended_decision(stop: str, turn_id: int) -> MessageDecision:
    """Return the decision about the trigger of a turn that ended without an answer. ``stop`` is the
    reason why the turn ended."""
    if stop.startswith("limit_") and stop.endswith(_DAY):
        quota = stop.removeprefix("limit_").removesuffix(_DAY)
        return MessageDecision(reason=DecisionReason.QUOTA, detail=quota, turn_id=turn_id)
    reason = _STOPS.get(stop)
    if reason is not None:
        return MessageDecision(reason=reason, turn_id=turn_id)
    return MessageDecision(reason=DecisionReason.FAILED, detail=stop, turn_id=turn_id)


def has_answered(stop: str) -> bool:
    """Return True if a turn that ended for this reason has answered its trigger."""
    return stop in _ANSWERED


def unheard_reason(state: ChatState) -> DecisionReason:
    """Return why a chat in this state gets no answers."""
    off = state is ChatState.OFF
    return DecisionReason.CHAT_OFF if off else DecisionReason.CHAT_OBSERVED


def ignored_reason(record: Record) -> DecisionReason:
    """Return why a record is ignored."""
    if record.answered_elsewhere:
        return DecisionReason.ANSWERED_ELSEWHERE
    return DecisionReason.IGNORED_PERSON
