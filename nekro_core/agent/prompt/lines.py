"""The forms in which prompts have shown records, by version.

A stored prompt has the numbers of records and not their lines. To show the prompt again, each line
is written in the form that was used when the prompt was sent. So never change a form: to change
what `record_lines` writes, keep the old code here under its number, and add 1 to `LINE_FORM`. A
test compares the lines of each form with stored lines.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import tzinfo

from nekro_core.agent.prompt.first_form import first_form
from nekro_core.agent.prompt.transcript import record_lines
from nekro_core.chat import Record

LINE_FORM = 2
"""The form of new prompts."""

WriteLine = Callable[[Record, tzinfo | None, int, int, Collection[str]], str]
"""Writes the lines of a record. Its arguments are the record, the time zone of its time, the limit
in characters, the mark, and the ids of the bot's accounts. The mark is the number of `LineMarks`;
in form 1 it is only `LineMarks.task`."""


def _second(
    record: Record, zone: tzinfo | None, limit: int, mark: int, own: Collection[str]
) -> str:
    return record_lines(record, zone, limit, mark, frozenset(own))


LINE_FORMS: Mapping[int, WriteLine] = {1: first_form, 2: _second}
