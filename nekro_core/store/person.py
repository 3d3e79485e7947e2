"""Describes a person in the database, and builds SQL conditions that select their rows.

Each condition is an SQL text with ``?`` for each value, and the values.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from nekro_core.chat.redact import id_spellings
from nekro_core.store.database import Value

_ESCAPED_IN_JSON = re.compile(r'["\\]|[^ -~]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person's id on a platform.

    Attributes:
        adapter: The platform's adapter, for example ``telegram``.
        user_id: The person's id on the platform.
        instances: The instances (beginnings of chat keys) of the bot's accounts on this platform,
            sorted.
    """

    adapter: str
    user_id: str
    instances: tuple[str, ...]

    @property
    def ids(self) -> frozenset[str]:
        """All forms in which the id occurs in the database."""
        return id_spellings(self.user_id, {self.adapter, *self.instances})


def runs_woken_by(person: Person) -> tuple[str, tuple[Value, ...]]:
    """Return a query for the ids of all runs in turns that the person woke."""
    theirs, beginnings = chat_key_in(person.instances)
    return (
        "SELECT run_id FROM runs WHERE turn_id IN "
        f"(SELECT id FROM turns WHERE user_id = ? AND {theirs})"
    ), (person.user_id, *beginnings)


def is_one_of(column: str, values: Collection[str]) -> tuple[str, tuple[Value, ...]]:
    """Return the condition that a column has one of these values, and the values of its question
    marks."""
    return f"{column} IN ({', '.join('?' * len(values))})", tuple(values)


def chat_key_in(instances: Collection[str]) -> tuple[str, tuple[Value, ...]]:
    """Return the condition that ``chat_key`` belongs to one of these instances, and the values of
    its question marks. At least one instance must be given."""
    beginnings = tuple(f"{instance}-" for instance in instances)
    either = " OR ".join(f"substr(chat_key, 1, {len(each)}) = ?" for each in beginnings)
    return f"({either})", beginnings


def like_pattern(text: str) -> str:
    """Return a pattern for ``LIKE`` that matches all texts that contain ``text``. Its escape
    character is ``!``.

    The pattern also matches ``text`` in the form that it has in JSON, where some characters are
    escaped. Therefore it can also match texts that do not contain ``text``.
    """
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return f"%{_ESCAPED_IN_JSON.sub('%', text)}%"
