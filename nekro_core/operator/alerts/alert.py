"""Defines alerts, and what the checks find."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class AlertKind(StrEnum):
    """What is wrong."""

    ACCOUNT = "account"
    """An account is not connected."""
    KEY = "key"
    """A provider refuses the key of a model."""
    BUDGET = "budget"
    """Most of a daily budget is used."""
    DISK = "disk"
    """Little space is free on the disk."""
    UNKNOWN = "unknown"
    """It is not known whether messages have arrived."""
    GIVEN_UP = "given_up"
    """Messages were given up because each of them ended several workers."""
    CRASH = "crash"
    """The bot has crashed several times."""


class ConditionState(StrEnum):
    """Whether something is wrong."""

    WRONG = "wrong"
    FINE = "fine"
    UNKNOWN = "unknown"
    """It is not known now. The alert about the subject stays as it is."""
    GONE = "gone"
    """The subject does not exist any more. The alert about it is removed, and nobody is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What a check has found.

    Attributes:
        subject: What the check looked at, for example an account.
        state: Whether something is wrong with it.
        facts: The values for the sentence that people read.
    """

    subject: str
    state: ConditionState
    facts: Mapping[str, str] = field(default_factory=dict)


Check = Callable[[Collection[str]], Awaitable[Sequence[Condition]]]
"""Looks at all subjects of one kind. The argument has the subjects that have an alert now. A
subject with an alert that is missing in the result does not exist any more, so its alert is
over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that is wrong, or was.

    Attributes:
        kind: What is wrong.
        subject: The thing that is wrong, for example an account or a model.
        facts: The values for the sentence that people read.
        since: When it was found, in seconds since 1970.
        over: When it was over; 0 if it is not.
        told: The names of the targets that were told that it began. Once it is over, only those of
            them that were not yet told of the end.
    """

    kind: AlertKind
    subject: str
    facts: Mapping[str, str]
    since: float
    over: float = 0.0
    told: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """The name under which the alert is stored. There is at most one with this name."""
        return f"{self.kind}:{self.subject}"
