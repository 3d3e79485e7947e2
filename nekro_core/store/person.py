"""A person as the database knows them, and the conditions in SQL that mean them.

Each condition is a text with ``?`` in it, and the values that stand for those.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from nekro_core.chat.redact import id_spellings
from nekro_core.store.database import Value

_ESCAPED_IN_JSON = re.compile(r'["\\]|[^ -~]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who is meant: an id on a platform.

    Attributes:
        adapter: The platform's adapter, for example ``telegram``.
        user_id: The person's id on the platform.
        instances: The instances (beginnings of chat keys) of our accounts there, sorted.
    """

    adapter: str
    user_id: str
    instances: tuple[str, ...]

    @property
    def ids(self) -> frozenset[str]:
        """How the id is written down."""
        return id_spellings(self.user_id, {self.adapter, *self.instances})


def runs_woken_by(person: Person) -> tuple[str, tuple[Value, ...]]:
    """The ids of the runs in turns that they woke."""
    theirs, beginnings = chat_key_in(person.instances)
    return (
        "SELECT run_id FROM runs WHERE turn_id IN "
        f"(SELECT id FROM turns WHERE user_id = ? AND {theirs})"
    ), (person.user_id, *beginnings)


def is_one_of(column: str, values: Collection[str]) -> tuple[str, tuple[Value, ...]]:
    """A column that holds one of these."""
    return f"{column} IN ({', '.join('?' * len(values))})", tuple(values)


def chat_key_in(instances: Collection[str]) -> tuple[str, tuple[Value, ...]]:
    """A ``chat_key`` of one of these accounts."""
    beginnings = tuple(f"{instance}-" for instance in instances)
    either = " OR ".join(f"substr(chat_key, 1, {len(each)}) = ?" for each in beginnings)
    return f"({either})", beginnings


def like_pattern(text: str) -> str:
    """A pattern, escaped by ``!``, for texts that hold this one, as JSON writes it or not: for
    more than those where the text has what JSON may escape."""
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return f"%{_ESCAPED_IN_JSON.sub('%', text)}%"
