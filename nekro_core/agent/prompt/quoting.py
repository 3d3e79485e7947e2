"""Lines of a prompt: the program's own, and what it quotes.

The program's lines begin with a word in brackets (`OWN_MARKS`), or with ``+``. Each line that
somebody else wrote begins with ``>``. Quoted text gets this mark only when it is shown. When texts
were marked first and cut later, a cut could remove a mark, and a file of 20,000 letters put a line
into the prompt that looked like one of the program.
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
"""The words in brackets that the program's lines begin with. `report`, `prompt` and `transcript`
write these lines. `[... 300 characters left out ...]` is none of them: it is inside quoted text."""
_LEAST_LINE = 80
"""Least characters to which a line of the program is shortened. If there are too many lines, the
middle ones are left out."""
_LEAST_QUOTE = 20
"""The same for quoted text."""
_OURS = re.compile(rf"\s*(?:{'|'.join(OWN_MARKS)})\b", re.IGNORECASE)
_BRACKET = re.compile(r"[\[\uff3b\ufe47]")
"""What looks like an opening bracket of the program's lines."""
_LOOKED_AT = 1000
"""Characters at the beginning of a line that are checked, if the line is not ASCII."""
_NOT_SEEN = ("Cf", "Cc", "Mn", "Me")
_WORDS = re.compile(r"[\w>+]")
"""Characters which show that a line begins with something else than a mark."""


@dataclass(frozen=True, slots=True)
class QuotedText:
    """Text of somebody else, unchanged: any characters, any length."""

    text: str


@dataclass(frozen=True, slots=True)
class PromptLines:
    """Lines of the program, in which words of others are in JSON quotes, and texts that it quotes
    below them."""

    lines: tuple[str | QuotedText, ...]

    def text(self, limit: int) -> str:
        """All of it in about ``limit`` characters. Quoted texts are cut before they are marked, and
        share the space that the program's lines leave. No line of the program loses its
        beginning."""
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
    """Quoted text in about ``limit`` characters, with the mark before each line."""
    limit = max(limit, _LEAST_QUOTE)
    marked = _marked(text, limit)
    if len(marked) > 2 * limit:  # nearly all of it is marks
        marked = _marked(text, max(limit * limit // len(marked), _LEAST_QUOTE))
    return marked


def _marked(text: str, limit: int) -> str:
    return "\n".join(f"> {line}" for line in visible_excerpt(text, limit).rstrip("\n").split("\n"))


@lru_cache(16)
def escape_own_marks(text: str) -> str:
    """Text that is shown without quoting, for example of a plugin, which may repeat what people
    wrote. Those of its lines that look like the program's get the mark of quoted text. The results
    are cached, since a prompt's list of functions stays the same: 20,000 characters take a
    millisecond."""
    if not _BRACKET.search(text):
        return text
    lines = LINE_END.sub("\n", text).split("\n")
    return "\n".join(f"> {line}" if _is_like_ours(line) else line for line in lines)


def _is_like_ours(line: str) -> bool:
    if not _BRACKET.search(line):
        return False
    if not line.isascii():
        # Invisible characters may be between the letters, and letters may be full-width. Only the
        # beginning is checked, since normalizing takes quadratic time on a run of combining marks.
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
    """The largest length for each text, so that all together fit into ``room``. Shorter texts leave
    their rest to the others."""
    for index, length in enumerate(lengths):
        share = max(room // (len(lengths) - index), 0)
        if length > share:
            return share
        room -= length
    return max(lengths, default=0)
