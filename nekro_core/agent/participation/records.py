"""Reads the records of a chat as lines of a conversation: who speaks, and whom the line names."""

import re
from collections.abc import Mapping

from nekro_core.agent.participation.conversation import SpokenLine
from nekro_core.chat import (
    EVERYONE,
    Author,
    Mention,
    Notice,
    Record,
    Reply,
    Segment,
    Text,
    Voice,
)

BOT = "\x00bot"
"""Stands for the bot among the ids of people. No platform has such an id."""
_ALL = "\x00all"
"""Stands for everybody."""
_NOBODY = frozenset[str]()
"""Most lines name nobody, and each empty set that is made takes 216 bytes."""
_READ = 1000
_LEAST_LATIN = 3
"""Number of letters. A shorter name in Latin letters is not looked for in the middle of a text,
because it may also be a common word."""
_LEAST_OTHER = 2
_AFTER_NAME = r"\s*[:,，：、]"


def spoken_line(
    record: Record, *, members: Mapping[str, str], asker: str = "", calls_bot: bool = False
) -> SpokenLine | None:
    """Read a record as a line. Return None if it is not a message of a person or of the bot.

    Args:
        record: The record.
        members: Maps the names of people of the chat, in lower case, to their ids.
        asker: For a message of the bot: the id of the person whom its turn answered.
        calls_bot: Whether a message of a person calls the bot by a name.
    """
    if record.author is Author.SYSTEM or record.recalled or not record.segments:
        return None
    if any(isinstance(part, Notice) for part in record.segments):
        return None
    speaker = BOT if record.author is Author.BOT else record.sender.user_id
    text = " ".join(part.text for part in record.segments if isinstance(part, Text | Voice))
    text = text[:_READ].strip()
    mentioned = [who for part in record.segments if (who := _mentioned(part))]
    first = _mentioned(record.segments[0])
    in_text, begins = _names_in(text, members)
    named = {*mentioned, *in_text} | ({asker} if asker else set())
    if record.to_bot or calls_bot:
        # The only mention is that of the bot's account, so replace the account's id with `BOT`.
        if record.to_bot and len(mentioned) == 1 and not in_text:
            named, first = set(), BOT if first else ""
        named.add(BOT)
    named.discard(speaker)
    first = first or begins
    return SpokenLine(
        speaker=speaker,
        at=record.time,
        said=text,
        named=frozenset(named) or _NOBODY,
        first_named=first if first in named else "",
    )


def _mentioned(part: Segment) -> str:
    match part:
        case Mention(user_id=user_id):
            return _ALL if user_id == EVERYONE else user_id
        case Reply(sender_id=sender_id):
            return sender_id
    return ""


def _names_in(text: str, members: Mapping[str, str]) -> tuple[set[str], str]:
    """Return the ids of the members whose names are in a text, and the id of the member with whose
    name the text begins."""
    plain, found, first = text.casefold(), set[str](), ""
    for name, who in members.items():
        if name not in plain:
            continue
        if re.match(rf"@?{re.escape(name)}{_AFTER_NAME}", plain):
            first = who
            found.add(who)
        elif name.isascii():
            if len(name) >= _LEAST_LATIN and re.search(
                rf"(?<![a-z0-9_]){re.escape(name)}(?![a-z0-9_])", plain
            ):
                found.add(who)
        elif len(name) >= _LEAST_OTHER:
            found.add(who)
    return found, first
