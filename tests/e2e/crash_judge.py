"""Judges a bot that was killed: compares the calls that the platform received with the bot's store.

Each question in the store must have exactly one answer that the platform received, with two
exceptions:

* The answer's row is ``unknown``. Then there is no answer or one. A row may be ``unknown`` only if
  its call was under way at a kill or at a cut of its connection, or began before the bot noticed
  the cut.
* The question's turn was killed each time that it was started. Then the turn is closed with a
  reason, and the chat gets a message.

If the platform has a history, every question must be in the store, in the order in which it was
asked. On any other platform, the questions that the bot received must be there. Within a chat, the
answers must be in the order of the questions. No answer may go to another chat.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.read_database import StoreLook
from tests.peers.onebot_v11 import OneBotPeer

ASKED = re.compile(r"ask(\d+)x(\d+)y")
ANSWERED = re.compile(r"ans(\d+)x(\d+)y")
FIRST_GROUP = 30000

Question = tuple[int, int]
"""The number of the chat and the number of the question in it."""


def questions(pattern: re.Pattern[str], text: str) -> list[Question]:
    """The questions or answers in a text."""
    return [(int(chat), int(number)) for chat, number in pattern.findall(text)]


ON_THEIR_WAY = "SELECT delivery_id, chat_key FROM deliveries WHERE state = 'sending'"
UNKNOWN = "SELECT delivery_id, chat_key, created FROM deliveries WHERE state = 'unknown'"


def chat_of(chat_key: str) -> int:
    """The number of a chat in this test."""
    return int(chat_key.rpartition("_")[2]) - FIRST_GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A connection that the test has cut.

    The bot notices the cut a moment later. A call that it starts in that moment goes into a dead
    socket and may end as `unknown`, although it was not under way at the cut. ``connection`` is the
    number of the connection, ``doubted`` are the calls that were `unknown` before the cut.
    """

    peer: OneBotPeer
    connection: int
    doubted: frozenset[str]

    def explains(
        self, rows: Iterable[Sequence[Any]], peer_of: Mapping[int, OneBotPeer]
    ) -> set[str]:
        """The `UNKNOWN` rows that the cut can explain: calls of this account that were created
        before the bot first wrote to the next connection. Later calls use that connection."""
        later = (at for number, at in self.peer.spoken_to.items() if number > self.connection)
        until = min(later, default=math.inf)
        return {
            delivery
            for delivery, chat_key, created in rows
            if delivery not in self.doubted
            and peer_of[chat_of(chat_key)] is self.peer
            and created <= until
        }


@dataclass(slots=True)
class Outcome:
    """What the wire and the store show at the end. ``faults`` is empty if all is correct."""

    asked: int = 0
    heard: int = 0
    answered: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    cuts: int = 0
    in_flight: set[str] = field(default_factory=set)
    """Calls that were under way at a kill, or that a cut explains."""
    settled: int = 0
    unknown: set[Question] = field(default_factory=set)
    askable: list[str] = field(default_factory=list)
    """The reasons of the unknown answers whose platform has a history."""
    given_up: set[Question] = field(default_factory=set)
    unanswered: int = 0
    restarts_s: list[float] = field(default_factory=list)
    seconds: float = 0.0
    """The duration of the whole round. ``quiet_s`` is its last part, from the last kill until
    everything was answered."""
    quiet_s: float = 0.0
    faults: list[str] = field(default_factory=list)
    evidence: str = ""
    """The store's rows of the first chat with a fault."""

    def __str__(self) -> str:
        restarts = sorted(self.restarts_s) or [0.0]
        why = f" ({'; '.join(sorted(set(self.askable)))})" if self.askable else ""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kills.items()))
        return (
            f"{self.kills.total()} kills ({kinds}) and {self.cuts} cuts in {self.seconds:.0f} s, "
            f"of which {self.quiet_s:.0f} s until all was answered; restarted in "
            f"{restarts[len(restarts) // 2]:.2f} s (longest {restarts[-1]:.2f} s); {self.asked} "
            f"asked, {self.heard} heard, {self.answered} answers on the wire; of "
            f"{len(self.in_flight)} calls on their way {self.settled} were settled by asking; "
            f"{len(self.unknown)} answers are of unknown outcome, {len(self.askable)} of them on "
            f"platforms with a history{why}; {self.unanswered} questions are unanswered because "
            f"their turn was killed each time; {len(self.faults)} faults"
        )


async def unknown(look: StoreLook) -> set[Question]:
    """Questions whose answer has an unknown outcome, so it may have arrived."""
    rows = await look.column("SELECT segments FROM deliveries WHERE state = 'unknown'")
    return {question for segments in rows for question in questions(ANSWERED, segments)}


async def given_up(look: StoreLook) -> set[Question]:
    """Questions of turns that the bot has given up, because each attempt was killed."""
    rows = await look.column(
        "SELECT m.segments FROM messages m JOIN turns t ON t.chat_key = m.chat_key "
        "WHERE t.stop = 'given_up' AND m.author = 'person' AND m.seq <= t.through_seq "
        "AND m.seq > (SELECT COALESCE(MAX(b.through_seq), 0) FROM turns b "
        "WHERE b.chat_key = t.chat_key AND b.id < t.id)"
    )
    return {question for segments in rows for question in questions(ASKED, segments)}


def on_the_wire(peers: Sequence[OneBotPeer]) -> list[Question]:
    """All answers that the platform received."""
    return [q for peer in peers for call in peer.sends for q in questions(ANSWERED, call.text)]


async def judge(
    asked: Mapping[int, int],
    peer_of: Mapping[int, OneBotPeer],
    look: StoreLook,
    outcome: Outcome,
) -> None:
    """Compare the store with the wire, and add the faults to ``outcome``. ``asked`` has the number
    of questions of each chat."""
    stored: defaultdict[int, list[int]] = defaultdict(list)
    for segments in await look.column(
        "SELECT segments FROM messages WHERE author = 'person' ORDER BY seq"
    ):
        for chat, number in questions(ASKED, segments):
            stored[chat].append(number)
    outcome.unknown, outcome.given_up = await unknown(look), await given_up(look)
    wire = _wire({peer.self_id: peer for peer in peer_of.values()}, outcome)
    outcome.asked, outcome.heard = sum(asked.values()), sum(map(len, stored.values()))
    for chat, count in asked.items():
        if peer_of[chat].has_history and sorted(stored[chat]) != [*range(count)]:
            missing = sorted(set(range(count)) - set(stored[chat]))
            outcome.faults.append(f"chat {chat}: of {count} the store lacks {missing}")
        if stored[chat] != sorted(set(stored[chat])):
            outcome.faults.append(f"chat {chat}: stored twice or out of order, {stored[chat]}")
        if wire[chat] != sorted(wire[chat]):
            outcome.faults.append(f"chat {chat}: answered out of order, {wire[chat]}")
        counts = Counter(wire[chat])
        outcome.answered += counts.total()
        for number in stored[chat]:
            excused = (chat, number) in outcome.unknown | outcome.given_up
            if counts[number] not in ({0, 1} if excused else {1}):
                outcome.faults.append(f"ask{chat}x{number}y: {counts[number]} answers")
        outcome.unanswered += sum(
            (chat, number) in outcome.given_up and not counts[number] for number in stored[chat]
        )
        if outcome.faults and not outcome.evidence:
            outcome.evidence = await _evidence(look, FIRST_GROUP + chat)
    await _judge_states(peer_of, look, outcome)


def _wire(peers: Mapping[str, OneBotPeer], outcome: Outcome) -> defaultdict[int, list[int]]:
    wire: defaultdict[int, list[int]] = defaultdict(list)
    for peer in peers.values():
        for call in peer.sends:
            for chat, number in questions(ANSWERED, call.text):
                wire[chat].append(number)
                if int(call.params.get("group_id", 0)) != FIRST_GROUP + chat:
                    outcome.faults.append(f"{call.text} went to {call.params}")
    return wire


async def _judge_states(
    peer_of: Mapping[int, OneBotPeer], look: StoreLook, outcome: Outcome
) -> None:
    rows = await look.rows("SELECT delivery_id, state, chat_key, reason FROM deliveries")
    left = [row for row in rows if row[1] in {"pending", "sending"}]
    if left:
        outcome.faults.append(f"left undone: {left[:5]} and {len(left) - 5} more")
    surprising = [r for r in rows if r[1] == "unknown" and r[0] not in outcome.in_flight]
    if surprising:
        outcome.faults.append(
            f"unknown, and neither on its way at a kill nor on a connection that was cut: "
            f"{surprising[:5]}"
        )
    for _, state, chat_key, reason in rows:
        if state == "unknown" and peer_of[chat_of(chat_key)].has_history:
            outcome.askable.append(reason)
    outcome.settled = sum(row[0] in outcome.in_flight and row[1] == "sent" for row in rows)
    running = await look.column("SELECT chat_key FROM turns WHERE running_chat IS NOT NULL")
    if running:
        outcome.faults.append(f"turns that nobody ended: {running[:5]}")


async def _evidence(look: StoreLook, group: int) -> str:
    of_chat = f"WHERE chat_key LIKE '%group_{group}' ORDER BY"
    tables = {
        "chats": f"SELECT * FROM chats {of_chat} chat_key",
        "messages": "SELECT seq, author, segments, time, from_history, run_id, state "
        f"FROM messages {of_chat} seq",
        "turns": f"SELECT * FROM turns {of_chat} id",
        "deliveries": "SELECT id, run_id, segments, state, reason, record_seq, created, changed "
        f"FROM deliveries {of_chat} id",
    }
    lines = []
    for table, query in tables.items():
        lines += [f"{table}:", *(f"  {tuple(row)}" for row in await look.rows(query))]
    return "\n".join(lines)
