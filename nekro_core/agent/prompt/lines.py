"""The forms in which prompts have shown records, by version.

A stored prompt has records' numbers and not their lines. To show it again, each line is written in
the form that was in use then. So a form never changes: to change how `transcript` writes a line,
keep the old code here under its number, and add one to `LINE_FORM`. A test compares the lines of
each version with stored ones.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import tzinfo

from nekro_core.agent.prompt.transcript import transcript
from nekro_core.chat import Record

LINE_FORM = 1
"""The version that prompts use now."""

WriteLine = Callable[[Record, tzinfo | None, int, int, Collection[str]], str]
"""Writes the line of a record. Its arguments: the record, the time zone of its time, the limit in
characters, the mark (see `nekro_core.agent.prompt.sources.ShownRecord`), and the ids of the bot's
accounts."""


def _first(record: Record, zone: tzinfo | None, limit: int, mark: int, own: Collection[str]) -> str:
    seqs = (record.seq,)
    (line,) = transcript(
        (record,),
        zone=zone,
        limit=limit,
        unanswered=seqs if mark == 1 else (),
        waiting=seqs if mark == 2 else (),
        own=own,
    )
    return line


LINE_FORMS: Mapping[int, WriteLine] = {1: _first}
