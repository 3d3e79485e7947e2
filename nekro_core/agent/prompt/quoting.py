"""Marks quoted text in a prompt, so that it cannot look like a *line of the program*: a line that
the bot's own code wrote.

The program's lines begin with a word in brackets (`OWN_MARKS`), with a message's number (``#311``),
or with ``+``. Each line of quoted text begins with the mark ``>``. Quoted text is cut first and
marked afterwards. In the opposite order a cut could remove a mark: a file of 20,000 letters once
put a line into the prompt that looked like a line of the program.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import category, normalize

from nekro_core.agent.prompt.transcript import LINE_END, shortened, visible_excerpt
from nekro_core.llm.model import AudioPart, ImagePart

OWN_MARKS = (
    "before",
    "chat",
    "date",
    "error",
    "message",
    "note",
    "notes",
    "now",
    "output",
    "picture",
    "ran",
    "result",
    "sent",
    "summary",
    "system",
    "task",
)
"""The words in brackets with which the program's lines begin. `report`, `prompt` and `transcript`
write these lines. `[... 300 characters left out ...]` is not one of these words, because it occurs
only inside quoted text."""
_LEAST_LINE = 80
"""A line of the program is not shortened below this number of characters. If there are still too
many characters, lines in the middle are left out."""
_LEAST_QUOTE = 20
"""Quoted text is not shortened below this number of characters."""
_OURS = re.compile(rf"\s*(?:{'|'.join(OWN_MARKS)})\b", re.IGNORECASE)
_NUMBERED = re.compile(r"\s*#\d+(?:\s|$)")
"""A line that looks like the header of a message."""
_BRACKET = re.compile(r"[\[\uff3b\ufe47#\uff03\ufe5f]")
"""Characters that look like the beginning of the program's lines."""
_LOOKED_AT = 1000
"""Number of characters at the beginning of a line that are checked if the line is not ASCII."""
_NOT_SEEN = ("Cf", "Cc", "Mn", "Me")
_WORDS = re.compile(r"[\w>+]")
"""If one of these characters is before the bracket, the line does not look like a line of the
program."""


@dataclass(frozen=True, slots=True)
class QuotedText:
    """Text that the program did not write, unchanged. It may have any characters and any length."""

    text: str


@dataclass(frozen=True, slots=True)
class PromptLines:
    """Lines of the program, and the texts that the program quotes below these lines. In a line of
    the program, other people's words are in JSON quotes."""

    lines: tuple[str | QuotedText, ...]

    def text(self, limit: int) -> str:
        """Return all lines and texts in about ``limit`` characters. Quoted texts are cut before
        they are marked, and share the space that the program's lines leave. The beginning of each
        line of the program stays."""
        lines = _fewer(self.lines, max(limit // _LEAST_LINE, 2))
        own = sorted(len(line) for line in lines if isinstance(line, str))
        quoted = sorted(len(line.text) for line in lines if isinstance(line, QuotedText))
        for_own = limit * 2 // 3 if quoted else limit
        most = _share(own, max(for_own, _LEAST_LINE * len(own)))
        share = _share(quoted, limit - sum(min(length, most) + 1 for length in own))
        return "\n".join(
            quote_lines(line.text, share) if isinstance(line, QuotedText) else _one_line(line, most)
            for line in lines
        )


PromptContent = PromptLines | ImagePart | AudioPart
"""A part of a step's report."""


def quote_lines(text: str, limit: int) -> str:
    """Return quoted text in about ``limit`` characters, with the mark before each line."""
    limit = max(limit, _LEAST_QUOTE)
    marked = _marked(text, limit)
    if len(marked) > 2 * limit:  # many short lines: the marks are most of the length
        marked = _marked(text, max(limit * limit // len(marked), _LEAST_QUOTE))
    return marked


def _marked(text: str, limit: int) -> str:
    return "\n".join(f"> {line}" for line in visible_excerpt(text, limit).rstrip("\n").split("\n"))


@lru_cache(16)
def escape_own_marks(text: str) -> str:
    """Protect a text that is shown without quoting, for example a plugin's text, which may repeat
    people's words. Each of its lines that looks like a line of the program gets the mark of quoted
    text. Results are cached, because a prompt's list of functions rarely changes and 20,000
    characters take a millisecond."""
    if not _BRACKET.search(text):
        return text
    lines = LINE_END.sub("\n", text).split("\n")
    return "\n".join(f"> {line}" if _is_like_ours(line) else line for line in lines)


def _is_like_ours(line: str) -> bool:
    if not _BRACKET.search(line):
        return False
    if not line.isascii():
        # There may be invisible characters between the letters, and full-width letters. Check only
        # the beginning: the time for normalizing many combining marks in a row grows with the
        # square of their number.
        seen = "".join(each for each in line[:_LOOKED_AT] if category(each) not in _NOT_SEEN)
        line = normalize("NFKC", seen)
    if _NUMBERED.match(line):
        return True
    head, bracket, rest = line.partition("[")
    return bool(bracket) and not _WORDS.search(head) and _OURS.match(rest) is not None


def _fewer(lines: Sequence[str | QuotedText], most: int) -> list[str | QuotedText]:
    if len(lines) <= most:
        return [*lines]
    head = most * 2 // 3
    gone = len(lines) - most
    return [*lines[:head], f"[note] {gone} lines are left out here.", *lines[head + gone :]]


def _one_line(line: str, most: int) -> str:
    return shortened(" ".join(line.splitlines()), most, " ... ")


def _share(lengths: Sequence[int], room: int) -> int:
    """Return a maximum length for each text, so that all texts together have at most ``room``
    characters. Space that shorter texts do not use goes to the longer texts. ``lengths`` must be
    sorted."""
    for index, length in enumerate(lengths):
        share = max(room // (len(lengths) - index), 0)
        if length > share:
            return share
        room -= length
    return max(lengths, default=0)
