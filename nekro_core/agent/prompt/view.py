"""The values from which a prompt is written."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from operator import is_

from nekro_core.agent.prompt.line_marks import window_marks
from nekro_core.agent.prompt.memory_sections import NO_SECTIONS, MemorySections
from nekro_core.agent.prompt.quoting import PromptContent, PromptLines
from nekro_core.agent.prompt.sources import ShownRecord
from nekro_core.chat import Author, ChatKey, Record, Sender
from nekro_core.llm.model import FunctionCall, ImagePart, Part

_NOBODY = Sender("")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """A native call and its answer for the model. ``media`` are pictures and sounds. The answer to
    a call cannot contain media, so they follow in a separate message."""

    call: FunctionCall
    text: str
    media: tuple[Part, ...] = ()
    failed: bool = False
    ends: bool = False
    """Whether the model does not need to read the answer. True if the call sent a message and
    returned nothing of use, or if its effect was noted in the chat's history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedStep:
    """A finished step of the current turn, for the prompt of the next step.

    ``reply`` is the model's reply, up to the point where it was cut. ``report`` says what the
    reply's code or calls did. ``calls`` are the native calls. ``through_seq`` is the newest record
    that the step's prompt showed.
    """

    reply: str
    report: tuple[PromptContent, ...]
    through_seq: int
    calls: tuple[CallAnswer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptView:
    """The content of a prompt.

    Attributes:
        records: The window of the history, oldest first, with the records that arrived during the
            turn.
        unanswered: The sequence numbers of the questions of ``asker``, which the turn answers.
        run_ids: The turn's runs. Their messages are left out of the history, because the steps'
            reports show them.
        pictures: Maps the paths of media to their pictures.
        preface: For a resumed turn: what the turn did before the interruption.
        waiting: The sequence numbers of the questions of other people, who get separate turns.
        reasons: Why each question is answered (values of `DecisionReason`), by sequence number.
        ran: Lines about runs of earlier turns, by the number of the record before which they are
            shown.
        written: Lines of records that were written already, by sequence number. They are used
            where the record's mark and limit are the same.
        marks: The marks of ``records``; empty if they were not found yet.
        vision: Whether the model sees pictures.
        captions: If the model does not see pictures: maps the paths of media to descriptions by
            another model.
        memory: The sections from memory, which are shown before the history.
        injections: The keys of plugins, each with the text that the plugin adds after the history.
        steps: The finished steps of the turn, in order.
        own_accounts: The platform's ids of the bot's accounts.
        now: The present time, in seconds since 1970.
        zone: The time zone of the times in the prompt; None for the machine's.
        asker: The person whom the turn answers; without an id if a system line woke the turn.
    """

    chat_key: ChatKey
    records: Sequence[Record]
    unanswered: Collection[int]
    run_ids: Collection[str]
    steps: Sequence[FinishedStep]
    own_accounts: Collection[str]
    now: float
    zone: tzinfo | None
    pictures: Mapping[str, ImagePart]
    preface: PromptLines | None = None
    waiting: Collection[int] = ()
    asker: Sender = _NOBODY
    reasons: Mapping[int, str] = field(default_factory=dict)
    ran: Mapping[int, str] = field(default_factory=dict)
    written: Mapping[int, ShownRecord] = field(default_factory=dict)
    marks: Sequence[int] = ()
    vision: bool = False
    captions: Mapping[str, str] = field(default_factory=dict)
    memory: MemorySections = NO_SECTIONS
    injections: Sequence[tuple[str, str]] = ()

    @property
    def shown(self) -> list[Record]:
        """The records that the prompt may show, oldest first. Recalled records are left out. The
        bot's messages of this turn are left out too, because the reports on its steps show them."""
        return [
            record
            for record in self.records
            if not record.recalled
            and not (record.author is Author.BOT and record.run_id in self.run_ids)
        ]

    def marks_of(self, records: Sequence[Record], before: Sequence[Record] = ()) -> list[int]:
        """Return the marks of records that are shown after ``before``."""
        same = len(records) == len(self.records) and all(map(is_, records, self.records))
        if same and self.marks and not before:
            return [*self.marks]
        return window_marks(
            records,
            zone=self.zone,
            own=self.own_accounts,
            unanswered=self.unanswered,
            waiting=self.waiting,
            reasons=self.reasons,
            before=before,
        )
