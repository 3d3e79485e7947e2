"""Remembers the lines of a chat's previous prompt, so that the next prompt only writes new lines.

A prompt shows up to some hundred records, and nearly all of them were in the previous prompt.
Writing 400 lines and counting their tokens takes 3 ms.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo

from nekro_core.agent.prompt.line_marks import MarkedRecords
from nekro_core.agent.prompt.own_runs import WrittenTurn
from nekro_core.agent.prompt.sources import ShownRecord
from nekro_core.chat import ChatKey, Record

_CHATS = 32
"""Maximum number of chats whose lines are remembered. A full window takes about 100 KiB. For any
other chat, all lines are written anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenWindow:
    """The lines of a prompt. Each is stored with the record from which it was written, and may be
    used again only for the same object: a record that was changed is another object.

    Attributes:
        zone: The time zone in which the lines are written.
        own: The ids of the bot's accounts, by which the lines name the bot.
        marked: The marks of the records.
        lines: The lines of records, by sequence number.
        turns: The lines about the code of earlier turns, by run id, each with the first record that
            the run sent.
    """

    zone: tzinfo | None
    own: frozenset[str]
    marked: MarkedRecords
    lines: Mapping[int, tuple[Record, ShownRecord]] = field(default_factory=dict)
    turns: Mapping[str, tuple[Record, WrittenTurn]] = field(default_factory=dict)

    def lines_of(self, records: Iterable[Record]) -> dict[int, ShownRecord]:
        """Return the lines of those records whose lines need not be written, by sequence
        number."""
        known = ((each, self.lines.get(each.seq)) for each in records)
        return {each.seq: found[1] for each, found in known if found and found[0] is each}

    def turn_of(self, run_id: str, first: Record) -> WrittenTurn | None:
        """Return the lines about the turn of a run; None if they must be written. ``first`` is the
        first record that the run sent."""
        known = self.turns.get(run_id)
        return known[1] if known is not None and known[0] is first else None


class WrittenWindows:
    """The lines of the newest prompts of some chats, in memory only."""

    def __init__(self) -> None:
        self._windows: OrderedDict[ChatKey, WrittenWindow] = OrderedDict()

    def of(self, chat_key: ChatKey, zone: tzinfo | None, own: Collection[str]) -> WrittenWindow:
        """Return the lines of the chat's previous prompt. Nothing is returned of a prompt that was
        written for another time zone or for other accounts of the bot."""
        found = self._windows.get(chat_key)
        accounts = frozenset(own)
        if found is None or found.zone != zone or found.own != accounts:
            marked = MarkedRecords(zone, accounts)
            return WrittenWindow(zone=zone, own=accounts, marked=marked)
        return found

    def note(self, chat_key: ChatKey, window: WrittenWindow) -> None:
        """Remember the lines of the chat's newest prompt."""
        self._windows.pop(chat_key, None)
        self._windows[chat_key] = window
        while len(self._windows) > _CHATS:
            self._windows.popitem(last=False)
