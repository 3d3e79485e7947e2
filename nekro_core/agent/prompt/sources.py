"""Remembers the texts and records from which a prompt is made, so that the prompt can be stored as
references to them.

The code that writes a prompt adds each text and each line of the history, in any order. Later
`nekro_core.agent.shown.recording` looks for these texts and lines in the request that was sent. The
rest of the request, for example a text that a plugin has changed, is stored as text.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

OWN = "own"
"""The program wrote the text. It is stored as it is, because it is short. Its only words of people
are the name of the group or channel. When a person is erased, their id is replaced in it."""
SHARED = "shared"
"""Operators and authors of plugins wrote the text. It is stored once for all chats."""
CHAT = "chat"
"""The text may contain words of people. It is stored once for its chat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecord:
    """The lines of a record. ``limit`` is the maximum number of characters of a message. ``mark``
    is the number of its `LineMarks`. ``tokens`` are the estimated tokens of the lines."""

    seq: int
    line: str
    limit: int
    mark: int
    tokens: int


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text of a prompt: its section, and who wrote it (`OWN`, `SHARED` or `CHAT`)."""

    kind: str
    text: str
    scope: str


@dataclass(slots=True)
class PromptSources:
    """The texts and lines of one prompt. ``pictures`` has, for each picture of the history, the
    number of its record and its number among the record's media. The keys are the `id` values of
    the pictures' bytes objects."""

    texts: list[SourceText] = field(default_factory=list)
    records: list[ShownRecord] = field(default_factory=list)
    pictures: dict[int, tuple[int, int]] = field(default_factory=dict)
    zone: str = ""
    offset: int = 0
    own: Sequence[str] = ()

    def add_text(self, kind: str, text: str, *, scope: str = CHAT) -> None:
        """Add a text."""
        if text:
            self.texts.append(SourceText(kind, text, scope))

    def add_records(self, shown: Iterable[ShownRecord]) -> None:
        """Add lines of the history."""
        self.records += shown

    def use_form(self, zone: tzinfo | None, own: Collection[str]) -> None:
        """Set the time zone in which the lines are written, and the ids of the bot's accounts."""
        self.zone = zone.key if isinstance(zone, ZoneInfo) else ""
        offset = datetime.now(zone).astimezone(zone).utcoffset()
        self.offset = int(offset.total_seconds()) if offset else 0
        self.own = sorted(own)
