"""Lines of a prompt: the program's own, and what it quotes.

The program's lines begin with a word in brackets (`OWN_MARKS`), or with ``+``. Whatever anybody
else wrote stands behind ``>``, each of its lines. What is quoted is kept apart from our own lines
until it is shown: a text that was marked first and cut then lost the mark where it was cut, and a
file of 20,000 letters put a line of ours into the prompt.
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
    "error",
    "message",
    "note",
    "now",
    "output",
    "picture",
    "result",
    "sent",
    "system",
    "task",
)
"""The words in brackets that our own lines begin with, each line in a room of its own: `report`,
`prompt`, `transcript`. `[... 300 characters left out ...]` stands inside what is quoted."""
_LEAST_LINE = 80
"""Characters that a line keeps, however little room there is; of more lines the middle ones go."""
_LEAST_QUOTE = 20
"""The same of what is quoted."""
_OURS = re.compile(rf"\s*(?:{'|'.join(OWN_MARKS)})\b", re.IGNORECASE)
_BRACKET = re.compile(r"[\[\uff3b\ufe47]")
"""Whatever counts as our bracket."""
_LOOKED_AT = 1000
"""Characters at the beginning of a line that is looked at more closely."""
_NOT_SEEN = ("Cf", "Cc", "Mn", "Me")
_WORDS = re.compile(r"[\w>+]")
"""What stands before a mark on a line that does not begin with it, whatever cannot be seen."""


@dataclass(frozen=True, slots=True)
class QuotedText:
    """What is not ours, as it came: any characters, any length."""

    text: str


@dataclass(frozen=True, slots=True)
class PromptLines:
    """What the program tells: lines of its own (each one line, what is others' in it in JSON
    quotes) and what it quotes below them."""

    lines: tuple[str | QuotedText, ...]

    def text(self, limit: int) -> str:
        """All of it in about ``limit`` characters. What is quoted is cut before it is marked, and
        shares the room that our own lines leave; of ours none is cut at its beginning."""
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
"""What a step's report is made of."""


def quote_lines(text: str, limit: int) -> str:
    """What is not ours in about ``limit`` characters, each line behind its mark."""
    limit = max(limit, _LEAST_QUOTE)
    marked = _marked(text, limit)
    if len(marked) > 2 * limit:  # nearly all of it is marks
        marked = _marked(text, max(limit * limit // len(marked), _LEAST_QUOTE))
    return marked


def _marked(text: str, limit: int) -> str:
    return "\n".join(f"> {line}" for line in visible_excerpt(text, limit).rstrip("\n").split("\n"))


@lru_cache(16)
def escape_own_marks(text: str) -> str:
    """Text that is shown as it stands, of a plugin for example, which may tell what people wrote:
    its lines that look like ours stand behind the mark of what is not. Kept, since a prompt's list
    of functions stays the same: 20,000 characters take a millisecond."""
    if not _BRACKET.search(text):
        return text
    lines = LINE_END.sub("\n", text).split("\n")
    return "\n".join(f"> {line}" if _is_like_ours(line) else line for line in lines)


def _is_like_ours(line: str) -> bool:
    if not _BRACKET.search(line):
        return False
    if not line.isascii():
        # What cannot be seen may stand between the letters, and letters may be wide ones. Marks
        # of ours are short, and normalizing takes the square of a run of combining marks.
        seen = "".join(each for each in line[:_LOOKED_AT] if category(each) not in _NOT_SEEN)
        line = normalize("NFKC", seen)
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
    """How much each of these may have at the most, so that all together have the room. What needs
    less leaves it to the others."""
    for index, length in enumerate(lengths):
        share = max(room // (len(lengths) - index), 0)
        if length > share:
            return share
        room -= length
    return max(lengths, default=0)
