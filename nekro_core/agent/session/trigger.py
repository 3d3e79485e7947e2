"""Decides whether a message is answered, and when. This module has no state and does no I/O."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from nekro_core.agent.participation.verdict import FollowVerdict
from nekro_core.chat import Author, ChatKind, Notice, Record, Text, Voice
from nekro_core.policy.settings import TriggerSettings
from nekro_core.store import DecisionReason, MessageDecision

POKE = "poke"
"""The only kind of notice that is answered, and only if it is meant for the bot."""

TIMER_S = 0.001
"""Each wait ends this many seconds early, since timers of the event loop fire up to 1 ms late."""

NOTHING_FORCED: Mapping[int, str] = MappingProxyType({})
NOTHING_FOLLOWED: Mapping[int, FollowVerdict] = MappingProxyType({})
_CALLED_WITHIN = 1000
"""A name is looked for in this many characters at the beginning and at the end of a message. The
time for normalizing grows with the square of the number of combining marks in a row: a message with
100,000 of them blocked all chats for 16 s."""
_REMEMBERED = 256
"""Number of texts and names for which the last results are kept. The same message is looked at up
to four times: a text takes 20 µs."""
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\u00ad]")


@dataclass(frozen=True, slots=True)
class PendingMessage:
    """A record and its time of arrival in seconds, on the same clock as ``now`` of `decide`."""

    record: Record
    at: float


@dataclass(frozen=True, slots=True)
class StartTurn:
    """Begin a turn. ``record`` wakes the turn, and ``decision`` says why."""

    record: Record
    decision: MessageDecision


@dataclass(frozen=True, slots=True)
class StaySilent:
    """No message asks for an answer. ``decisions`` has the decision about each message."""

    decisions: tuple[MessageDecision, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class WaitForMore:
    """The person who asks may still be typing. Call `decide` again after ``seconds``. If no other
    message arrives until then, a turn begins that answers ``record``."""

    seconds: float
    record: Record


Decision = StartTurn | StaySilent | WaitForMore


def decide(
    messages: Sequence[PendingMessage],
    *,
    now: float,
    wall: float,
    settings: TriggerSettings,
    names: Sequence[str],
    forced: Mapping[int, str] = NOTHING_FORCED,
    followed: Mapping[int, FollowVerdict] = NOTHING_FOLLOWED,
) -> Decision:
    """Decide what to do with ``messages``, the messages since the last turn, oldest first.

    ``now`` is a time of the clock of `PendingMessage.at`; ``wall`` is the time in seconds since
    1970. The result `WaitForMore` waits only for messages of the person who asks, because in a busy
    group other people are always typing. ``forced`` maps the sequence numbers of records that must
    be answered to the plugins that demand it. ``followed`` maps sequence numbers to the verdict
    whether the record goes on talking to the bot.
    """
    decisions: list[MessageDecision] = []
    for item in messages:
        decision = judge(
            item.record,
            wall=wall,
            settings=settings,
            names=names,
            forced=forced,
            followed=followed,
        )
        if not decision.reason.asks:
            decisions.append(decision)
            continue
        asker = item.record.sender.user_id
        last = max(other.at for other in messages if other.record.sender.user_id == asker)
        due = min(last + settings.debounce_s, item.at + settings.longest_wait_s)
        wait = due - now
        return (
            WaitForMore(wait, item.record) if wait > TIMER_S else StartTurn(item.record, decision)
        )
    return StaySilent(tuple(decisions))


def judge(
    record: Record,
    *,
    wall: float,
    settings: TriggerSettings,
    names: Sequence[str],
    forced: Mapping[int, str] = NOTHING_FORCED,
    followed: Mapping[int, FollowVerdict] = NOTHING_FOLLOWED,
) -> MessageDecision:
    """Decide whether this record asks for an answer, and give the reason. ``wall`` is the present
    time, in seconds since 1970.

    Messages of the bot's own accounts (`Author.BOT`) are never answered. System lines are answered
    if they are meant for the agent.
    """
    if record.seq in forced:
        return MessageDecision(reason=DecisionReason.FORCED, detail=forced[record.seq])
    if record.recalled:
        return MessageDecision(reason=DecisionReason.RECALLED)
    if record.author is not Author.PERSON:
        woken = record.author is Author.SYSTEM and record.to_bot
        reason = DecisionReason.WOKEN if woken else DecisionReason.NOT_ADDRESSED
        return MessageDecision(reason=reason)
    if record.from_history and wall - record.time > settings.history_age_s:
        return MessageDecision(reason=DecisionReason.TOO_OLD)
    return _judge_message(record, settings, names, followed.get(record.seq))


def _judge_message(
    record: Record,
    settings: TriggerSettings,
    names: Sequence[str],
    verdict: FollowVerdict | None,
) -> MessageDecision:
    """Decide about a new message of a person."""
    notice = next((part for part in record.segments if isinstance(part, Notice)), None)
    if notice is not None:
        if record.to_bot and notice.kind == POKE:
            return MessageDecision(reason=DecisionReason.POKED)
        return MessageDecision(reason=DecisionReason.OTHER_NOTICE, detail=notice.kind)
    detail = ""
    if not record.segments:
        reason = DecisionReason.EMPTY
    elif record.chat_key.kind is ChatKind.PRIVATE:
        reason = DecisionReason.PRIVATE if settings.private else DecisionReason.PRIVATE_OFF
    elif record.to_bot:
        reason = DecisionReason.ADDRESSED
    else:
        detail = called_name(record, names)
        reason = DecisionReason.NAMED if detail else DecisionReason.NOT_ADDRESSED
        if verdict is not None and not detail:
            detail = verdict.detail
            reason = DecisionReason.GOES_ON if verdict.goes_on else reason
    return MessageDecision(reason=reason, detail=detail)


def called_name(record: Record, names: Sequence[str]) -> str:
    """Return the first of the names that the person wrote or said; empty if there is none."""
    text = " ".join(part.text for part in record.segments if isinstance(part, Text | Voice))
    if len(text) > 2 * _CALLED_WITHIN:
        text = f"{text[:_CALLED_WITHIN]} {text[-_CALLED_WITHIN:]}"
    return _called_in(text, tuple(names))


@lru_cache(_REMEMBERED)
def _called_in(text: str, names: tuple[str, ...]) -> str:
    words = fold_text(text)
    folded = ((name, _fold_name(name)) for name in names)
    return next((name for name, word in folded if word and _contains(words, word)), "")


def fold_text(text: str) -> str:
    """Return the text with case and width normalized and without invisible characters."""
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).casefold().strip()


_fold_name = lru_cache(_REMEMBERED)(fold_text)


def _contains(words: str, name: str) -> bool:
    if not name.isascii():
        return name in words  # such a script may have no spaces between words
    return _latin_name(name).search(words) is not None


@lru_cache(_REMEMBERED)
def _latin_name(name: str) -> re.Pattern[str]:
    # Do not match the name within a longer Latin word. Do match it beside Chinese or Japanese
    # characters.
    return re.compile(rf"(?<![a-z0-9_]){re.escape(name)}(?![a-z0-9_])")
