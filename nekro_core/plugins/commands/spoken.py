"""What a person typed, as a command's line."""

import re

from nekro_core.chat import Mention, Record, Reply, Text
from nekro_core.policy.command_names import MAX_NAME

_COMMAND_WORD = re.compile(r"\s*(\S+)\s*")
_LONGEST_NAME = 3 * MAX_NAME
"""``author.module:group.name``; what is longer is no name, and is not looked up."""


def command_line_of(record: Record) -> str:
    """The words of a record, mentioned people by their ids; nothing where it begins with a mention
    of somebody else: it is for another bot.

    Who is mentioned first is only addressed. Pictures and files are left out.
    """
    parts: list[str] = []
    addressed = False
    for segment in record.segments:
        match segment:
            case Text(text):
                parts.append(text)
            case Mention(user_id=user_id) if "".join(parts).strip():
                parts.append(f" {user_id} ")
            case Mention():
                addressed = True
            case Reply() | _:
                pass
    if addressed and not record.to_bot:
        return ""
    return "".join(parts).strip()


def command_word(line: str) -> tuple[str, str]:
    """The first word, where it may be a command's name, and what stands behind it."""
    found = _COMMAND_WORD.match(line)
    if found is None or len(found.group(1)) > _LONGEST_NAME:
        return "", ""
    return found.group(1), line[found.end() :]
