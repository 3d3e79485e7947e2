"""Counts what boxes were not allowed to reach, for the operator. The counts are kept in memory, and
their number is limited."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

_MOST_OWNERS = 1000
_MOST_DESTINATIONS = 50
"""Maximum number of destinations of one owner. If there are more, because a loop in a box invents
names, those that were not requested for the longest time are dropped."""
_MAX_TEXT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRefusal:
    """A destination that was refused.

    Attributes:
        owner: The owner of the box; for the box of a chat this is the chat key.
        destination: The host and port as they were requested. They come from code in the box.
        reason: Why it was refused the last time.
        count: How often it was refused since the bot started.
        first_at: The first time, in seconds since 1970.
        last_at: The last time.
    """

    owner: str
    destination: str
    reason: str
    count: int
    first_at: float
    last_at: float


class EgressRefusals:
    """The latest refusals of all owners. ``wall`` returns seconds since 1970."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._owners: OrderedDict[str, OrderedDict[str, EgressRefusal]] = OrderedDict()

    def add(self, owner: str, destination: str, reason: str) -> None:
        """Count a refusal."""
        destination, now = destination[:_MAX_TEXT], self._wall()
        found = self._owners.setdefault(owner, OrderedDict())
        self._owners.move_to_end(owner)
        old = found.pop(destination, None)
        if old is None:
            old = EgressRefusal(
                owner=owner,
                destination=destination,
                reason="",
                count=0,
                first_at=now,
                last_at=now,
            )
        found[destination] = replace(
            old, reason=reason[:_MAX_TEXT], count=old.count + 1, last_at=now
        )
        if len(found) > _MOST_DESTINATIONS:
            found.popitem(last=False)
        if len(self._owners) > _MOST_OWNERS:
            self._owners.popitem(last=False)

    def newest(self, owner: str | None = None, limit: int = 100) -> list[EgressRefusal]:
        """List the ``limit`` latest refusals of one owner or of all, the latest first."""
        if owner is not None:
            return [*reversed(self._owners.get(owner, {}).values())][:limit]
        everything = (each for found in self._owners.values() for each in found.values())
        return sorted(everything, key=lambda each: each.last_at, reverse=True)[:limit]

    def forget(self, owner: str) -> None:
        """Drop the refusals of an owner."""
        self._owners.pop(owner, None)
