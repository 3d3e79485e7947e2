"""Finds a person or a message in a chat's records, by the id, name or number that the model's code
wrote."""

import json
import re
from collections.abc import Sequence

from nekro_core.chat import EVERYONE, Author, Mention, Record, Text, plain_text
from nekro_core.tools.outcome import ToolFailure

_NUMBER = re.compile(r"(?:message +)?#?(?P<seq>[0-9]{1,18})")
"""Matches the number of a record, as prompts show it."""
_LISTED = 10
"""An error text lists at most this many people or messages, the newest ones."""
_SHOWN = 40
"""Maximum number of characters of a name or a message in an error text."""


def find_person(records: Sequence[Record], wanted: str, asker: Mention) -> Mention:
    """Find the person with this id or name. Candidates are people who wrote or were mentioned in
    the records (oldest first), the ``asker``, and ids that occur in people's messages. Raises
    `ToolFailure`, whose text names known people."""
    people = _people(records)
    people.setdefault(asker.user_id, asker.name)
    people.pop(EVERYONE, None)
    wanted = wanted.strip()
    if wanted not in people:  # on some platforms ids begin with @, so try the whole text first
        wanted = wanted.removeprefix("@").strip()
    # A mention of everybody is never allowed, even if people of the chat have used it.
    if wanted == EVERYONE:
        raise ToolFailure("you cannot mention everybody: give the user ids of those you mean")
    if wanted and wanted in people:
        return Mention(wanted, people[wanted])
    named = [each for each, name in people.items() if name.casefold() == wanted.casefold() and name]
    if len(named) == 1:
        return Mention(named[0], people[named[0]])
    if not named and _is_written(records, wanted):
        return Mention(wanted)
    known = ", ".join(
        f"{user_id} ({_quoted(name)})" if name else user_id
        for user_id, name in [*people.items()][-_LISTED:]
        if user_id and (not named or user_id in named)
    )
    why = "several people are called" if named else "nobody here is known as"
    raise ToolFailure(f"{why} {_quoted(wanted)}; give a user id of: {known or 'nobody yet'}")


def find_message(records: Sequence[Record], wanted: str, asking: str) -> str:
    """Find a message in the records (oldest first) by its id, or by the number under which prompts
    show it, such as ``#311``. ``asking``, the id of the message that the agent answers, is valid
    too. Returns the id. Raises `ToolFailure`, whose text lists the newest messages."""
    wanted = wanted.strip()
    known = {record.message_id: record for record in records if record.message_id}
    if wanted and (wanted in known or wanted == asking):
        return wanted
    number = _NUMBER.fullmatch(wanted)
    if number is not None:
        seq = int(number["seq"])
        for record in known.values():
            if record.seq == seq:
                return record.message_id
    bare = wanted.removeprefix("#").strip()
    if bare and (bare in known or bare == asking):
        return bare
    newest = ", ".join(
        f"#{record.seq} ({_quoted(plain_text(record.segments))})"
        for record in [*known.values()][-_LISTED:]
    )
    raise ToolFailure(
        f"this chat has no message {_quoted(wanted)}; the newest are: {newest or 'none yet'}"
    )


def _people(records: Sequence[Record]) -> dict[str, str]:
    """Map each user id to the person's newest name, in the order in which they last appeared."""
    people: dict[str, str] = {}

    def note(user_id: str, name: str) -> None:
        before = people.pop(user_id, "")
        people[user_id] = name or before

    for record in records:
        for segment in record.segments:
            if isinstance(segment, Mention) and segment.user_id:
                note(segment.user_id, segment.name)
        if record.author is Author.PERSON and record.sender.user_id:
            note(record.sender.user_id, record.sender.name)
    return people


def _is_written(records: Sequence[Record], wanted: str) -> bool:
    """Return True if a message of a person contains this id as a separate word."""
    if not re.fullmatch(r"[\w.:@=/+-]{1,120}", wanted):
        return False
    whole = re.compile(rf"(?<![\w-]){re.escape(wanted)}(?![\w-])")
    return any(
        whole.search(segment.text) is not None
        for record in records
        if record.author is Author.PERSON
        for segment in record.segments
        if isinstance(segment, Text)
    )


def _quoted(text: str) -> str:
    return json.dumps(_cut(text), ensure_ascii=False)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
