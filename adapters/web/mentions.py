"""Finds the mentions in a text."""

import re
from collections.abc import Iterable, Mapping

from nekro_core.api.chat import Author, Mention, Record, Segment, Text

from .rooms import BOT_ID


class Mentions:
    """Finds mentions of the bot, and of people who wrote in the room."""

    def __init__(self, bot_name: str) -> None:
        self._bot_name = bot_name

    def people(self, history: Iterable[Record]) -> dict[str, str]:
        """Map the case-folded names of the bot and of all people in the history to their ids."""
        people = {BOT_ID.casefold(): BOT_ID, self._bot_name.casefold(): BOT_ID}
        for record in history:
            if record.author is Author.PERSON:
                people.setdefault(record.sender.user_id.casefold(), record.sender.user_id)
        return people

    def read(self, text: str, people: Mapping[str, str], *, to_bot: bool) -> list[Segment]:
        """Split a text into texts and mentions. ``@name`` of one of ``people`` is a mention, in
        upper or lower case.

        With ``to_bot``, a mention of the bot is put first if the text has none.
        """
        names = "|".join(map(re.escape, sorted(people, key=len, reverse=True)))
        segments: list[Segment] = []
        at = 0
        # Only Latin letters, digits and _ beside a name make it part of a longer word. Chinese and
        # Japanese letters do not, because these languages write no spaces around a name.
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
    """Return True if one of the mentions is of the bot."""
    return any(isinstance(part, Mention) and part.user_id == BOT_ID for part in words)
