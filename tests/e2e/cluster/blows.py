"""What a blow to a cluster is (a kill, a stop or a restart), which chats it concerns, and how long
these chats waited for their answers after it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.e2e.crash_judge import Question

NOTICED_S = 6.0
"""Seconds after a blow in which a process may still begin a call that is lost because of the blow.
A lease lasts 5 s, and a request to NATS fails after 5 s."""
SERVED_S = 5.0
"""The longest time in seconds until a chat is served again after a kill, or after a stopped process
or a server is back."""

STORED_S = 5.0
"""The longest time in seconds in which a gateway stores a message that it has received."""
CUT_S = 0.5
"""Seconds after the kill of a gateway in which the platform may not know yet that the connection is
cut."""


class Kind(StrEnum):
    """What a blow does."""

    KILL_WORKER = "a worker killed"
    KILL_GATEWAY = "a gateway killed"
    STOP_WORKER = "a worker stopped"
    STOP_GATEWAY = "a gateway stopped"
    NATS = "NATS restarted"
    POSTGRES = "PostgreSQL restarted"


@dataclass(frozen=True, slots=True)
class Place:
    """Which parts of the cluster serve a chat: the gateway of its account, and the owner of its
    partition."""

    account: str
    partition: int


@dataclass(slots=True, kw_only=True)
class Blow:
    """A kill, a stop or a restart. All times are in seconds since 1970.

    Attributes:
        kind: What was done.
        target: The name of the process, or how a server was ended.
        began: When it was done.
        accounts: The accounts whose chats the blow concerns.
        partitions: The partitions whose chats the blow concerns; None for all.
        over: When the cluster could serve these chats again. For a kill and for a stopped worker
            this is the moment of the blow, for another blow it is the end of the stop or the
            restart. Infinite until then.
        went_on: When a stopped process went on; 0 if it did not. A worker that goes on gets
            partitions again, and the worker that gives them up cuts off the calls under way.
    """

    kind: Kind
    target: str
    began: float
    accounts: frozenset[str]
    partitions: frozenset[int] | None = None
    over: float = float("inf")
    went_on: float = 0.0

    def concerns(self, place: Place) -> bool:
        """Whether nobody could serve a chat of this place because of the blow."""
        mine = self.partitions is None or place.partition in self.partitions
        return mine and place.account in self.accounts

    def explains(self, place: Place, created: float, changed: float) -> bool:
        """Whether a call of this place, which was under way from ``created`` to ``changed``, may
        have been lost because of the blow."""
        if self.concerns(place) and created <= self.over + NOTICED_S and changed >= self.began:
            return True
        return created <= self.went_on + NOTICED_S and changed >= self.went_on > 0

    def __str__(self) -> str:
        return f"{self.kind} ({self.target})"


@dataclass(frozen=True, slots=True)
class Wait:
    """How long a chat waited for an answer.

    Attributes:
        seconds: The wait.
        chat: The chat.
        number: The number of the question that waited.
        blow: The last blow that concerned the chat and was over before the answer; None if it was
            over more than `SERVED_S` before the question.
        answered: When the answer arrived, in seconds since 1970.
    """

    seconds: float
    chat: int
    number: int
    blow: Blow | None
    answered: float

    @property
    def kind(self) -> str:
        """The kind of the blow."""
        return "no blow" if self.blow is None else self.blow.kind.value

    def __str__(self) -> str:
        why = "no blow" if self.blow is None else str(self.blow)
        return f"{self.seconds:.1f} s, question {self.number} of chat {self.chat}, {why}"


def waits(
    blows: Sequence[Blow],
    asked: Mapping[Question, float],
    answered: Mapping[Question, float],
    places: Mapping[int, Place],
) -> list[Wait]:
    """How long the chats waited for their answers, the longest first.

    The wait for an answer begins with the question or with the end of the last blow before the
    answer that concerned the chat, whichever is later. A blow to a process that does not serve the
    chat excuses nothing. Of each chat and blow, only the longest wait is returned.

    Args:
        blows: All blows.
        asked: When each question was asked, in seconds since 1970.
        answered: When the answer of each question arrived.
        places: Who serves each chat.
    """
    longest: dict[tuple[int, float], Wait] = {}
    for question, at in answered.items():
        chat, number = question
        mine = [blow for blow in blows if blow.over <= at and blow.concerns(places[chat])]
        last = max(mine, key=lambda blow: blow.over, default=None)
        since = asked[question]
        if last is not None and last.over + SERVED_S < since:
            last = None
        if last is not None:
            since = max(since, last.over)
        wait = Wait(at - since, chat, number, last, at)
        # Waits without a blow are about different times, so each of them is kept.
        key = (chat, at if last is None else last.over)
        if key not in longest or longest[key].seconds < wait.seconds:
            longest[key] = wait
    return sorted(longest.values(), key=lambda wait: wait.seconds, reverse=True)


def may_be_lost(blows: Sequence[Blow], account: str, asked: float) -> bool:
    """Whether the kill of a gateway may have lost a question that was ``asked`` at this time.

    A gateway stores a message at once, or when it goes on or has its database again. Until then
    only its memory has the message. Only a platform without a history cannot give it again.
    """
    stored = asked + STORED_S
    for blow in blows:
        waits_for = blow.kind in (Kind.STOP_GATEWAY, Kind.POSTGRES) and account in blow.accounts
        if waits_for and blow.began <= asked + STORED_S:
            stored = max(stored, blow.over + STORED_S)
    return any(
        blow.kind is Kind.KILL_GATEWAY
        and account in blow.accounts
        and asked - CUT_S <= blow.began <= stored
        for blow in blows
    )
