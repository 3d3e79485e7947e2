"""Finds who is mentioned in a text."""

import re
from collections.abc import Iterable, Mapping

from nekro_core.api.chat import Author, Mention, Record, Segment, Text

from .rooms import BOT_ID


class Mentions:
    """Knows the bot by its name; everybody else by what is handed to it."""

    def __init__(self, bot_name: str) -> None:
        self._bot_name = bot_name

    def people(self, history: Iterable[Record]) -> dict[str, str]:
        """Ids by folded name: the bot's, and those of who has spoken."""
        people = {BOT_ID.casefold(): BOT_ID, self._bot_name.casefold(): BOT_ID}
        for record in history:
            if record.author is Author.PERSON:
                people.setdefault(record.sender.user_id.casefold(), record.sender.user_id)
        return people

    def read(self, text: str, people: Mapping[str, str], *, to_bot: bool) -> list[Segment]:
        """The text with its mentions found: ``@name`` of these people, however it is written.

        ``to_bot`` puts a mention of the bot in front where the text has none.
        """
        names = "|".join(map(re.escape, sorted(people, key=len, reverse=True)))
        segments: list[Segment] = []
        at = 0
        # Chinese and Japanese put no blank around a name; only Latin letters would continue it.
        mention = rf"(?<![A-Za-z0-9_])@({names})(?![A-Za-z0-9_]) ?"
        for match in re.finditer(mention, text, re.IGNORECASE):
            user_id = people.get(match[1].casefold())
            if user_id is None:
                continue
            segments += [Text(text[at : match.start()])] if match.start() > at else []
            segments.append(self._mention(user_id))
            at = match.end()
        segments += [Text(text[at:])] if text[at:] else []
        if to_bot and not mentions_bot(segments):
            segments.insert(0, self._mention(BOT_ID))
        return segments

    def _mention(self, user_id: str) -> Mention:
        return Mention(user_id, self._bot_name if user_id == BOT_ID else user_id)


def mentions_bot(words: Iterable[Segment]) -> bool:
    """Whether the bot is among those addressed."""
    return any(isinstance(part, Mention) and part.user_id == BOT_ID for part in words)
