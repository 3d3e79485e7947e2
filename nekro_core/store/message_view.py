"""Writes the SQL of a view over the history of all chats, with the columns that a caller wants."""

from collections.abc import Mapping
from types import MappingProxyType

TABLES = frozenset({"messages", "accounts"})
"""The tables that the view reads."""

_KIND = "SUBSTR(m.chat_key, LENGTH(m.instance) + 2, {length}) = '{kind}_'"
_KINDS = (
    f"CASE WHEN {_KIND.format(length=6, kind='group')} THEN 'group' "
    f"WHEN {_KIND.format(length=8, kind='private')} THEN 'private' ELSE 'channel' END"
)
_ADAPTER = "COALESCE((SELECT a.adapter FROM accounts a WHERE a.instance = m.instance), m.instance)"
_TEXT_OF = (
    "CASE {type} WHEN 'text' THEN {text} WHEN 'mention' THEN "
    "'@' || COALESCE(NULLIF({name}, ''), {user_id}) || ' ' WHEN 'reply' THEN '' "
    "ELSE '[' || {type} || ']' END"
)
_PARTS: Mapping[str, tuple[str, str, str, str]] = MappingProxyType(
    {
        "sqlite": (
            "json_extract(s.value, '$.{field}')",
            "COALESCE((SELECT group_concat({line}, '') FROM json_each(m.segments) s), '')",
            "CAST(m.time AS BIGINT)",
            "datetime(m.time, 'unixepoch')",
        ),
        "postgres": (
            "(s.value ->> '{field}')",
            (
                "COALESCE((SELECT string_agg({line}, '' ORDER BY s.number) FROM "
                "json_array_elements(m.segments::json) WITH ORDINALITY AS s(value, number)), '')"
            ),
            "CAST(floor(m.time) AS BIGINT)",
            "to_timestamp(m.time)",
        ),
    }
)
"""For each database, the SQL for four values: a field of a segment, the text of all segments, a
time in whole seconds since 1970, and a time as a date."""


def message_view(dialect: str, columns: Mapping[str, str]) -> str:
    """Write the SQL of a view with a row for each record.

    Args:
        dialect: ``sqlite`` or ``postgres``.
        columns: The expression of each column. It may use ``{seq}``, ``{message_id}``, ``{author}``
            (``person``, ``bot`` or ``system``), ``{user_id}``, ``{name}``, ``{adapter}``,
            ``{chat_key}``, ``{kind}``, ``{text}`` (a medium is its type in brackets), ``{to_bot}``,
            ``{recalled}``, ``{second}`` (since 1970) and ``{moment}``. Besides these, it may
            contain only constants, and values that `literal` has written.
    """
    part, joined, second, moment = _PARTS[dialect]
    parts = {field: part.format(field=field) for field in ("type", "text", "name", "user_id")}
    facts = {
        "seq": "m.seq",
        "message_id": "m.message_id",
        "author": "m.author",
        "user_id": "m.user_id",
        "name": "m.user_name",
        "adapter": _ADAPTER,
        "chat_key": "m.chat_key",
        "kind": _KINDS,
        "text": joined.format(line=_TEXT_OF.format(**parts)),
        "to_bot": "m.to_bot",
        "recalled": "m.recalled",
        "second": second,
        "moment": moment,
    }
    listed = ", ".join(f"{made.format(**facts)} AS {name}" for name, made in columns.items())
    return f"SELECT {listed} FROM messages m"


def literal(text: str) -> str:
    """Write a text as a constant for `message_view`."""
    doubled = text.replace("'", "''").replace("{", "{{").replace("}", "}}")
    return f"'{doubled}'"
