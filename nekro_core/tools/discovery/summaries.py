"""Tools that a model is told of in a line each: as short as it can be, and never out of bounds."""

import re
from collections import Counter
from collections.abc import Iterable

from nekro_core.tools.names import NamedTool
from nekro_core.tools.tool import Tool

LINE_TOKENS = 11.8
"""Of one line, as estimated, which is a sixth too many: less than 12 a tool, whatever introduces
them."""
MAX_LINES = 400
"""Tools that have a line of their own. Of thousands only the plugins are named."""

_LONGEST_WORD = 24
"""Letters of a word; a stranger's server can describe a tool by thousands without a blank."""
_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]{1,3}|[^\sA-Za-z0-9_]|_(?![A-Za-z])|\n")
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s|[。！？\n]")
_WORD_ENDS = re.compile(r"(?<=[\w)])(?=[\s，、；：,;:（(])|(?<=[\u3041-\u9fff])")
_FILLING = re.compile(
    r"^(?:this (?:tool|function) (?:is used to |can )?|used to |用于|用来)", re.IGNORECASE
)


def deferred_lines(tools: Iterable[tuple[str, NamedTool]], limit: int = MAX_LINES) -> list[str]:
    """A line for each tool, given with the name that it is called by: ``name: brief``.

    A name that alone is too long has no line, nor has any tool beyond ``limit``: of these a line
    for each plugin says how many more it has, and a search finds them all the same.
    """
    lines: list[str] = []
    more: Counter[str] = Counter()
    for name, named in tools:
        if len(lines) < limit and estimate_tool_tokens(name, name=True) < LINE_TOKENS:
            lines.append(_line(name, named.tool))
        else:
            more[named.tool.module] += 1
    return lines + [f"{module}: {count} more" for module, count in more.most_common(limit)]


def estimate_tool_tokens(text: str, *, name: bool = False) -> float:
    """About how many tokens of o200k_base a short text takes. Words inside of a name take more,
    for no space stands before them."""
    total = 0.0
    for piece in _PIECE.findall(text):
        if piece.isascii() and piece.isalpha():
            long, longer = (4, 8) if name else (8, 12)
            # Longer than any word: no language's, and cut by the tokenizer wherever it can be.
            most = 2.2 if len(piece) <= _LONGEST_WORD else len(piece) / 2
            total += 1.0 if len(piece) <= long else 1.5 if len(piece) <= longer else most
        elif "\u3041" <= piece <= "\u30ff":
            total += 0.78
        elif piece >= "\u3400" and len(piece) == 1:
            total += 0.88
        else:
            total += 1.0
    return total


def brief_of(tool: Tool) -> str:
    """What it does, in one sentence."""
    told = " ".join((tool.description or tool.summary).split())
    first = _END_OF_SENTENCE.split(told, maxsplit=1)[0]
    return _FILLING.sub("", first).rstrip(" .。")


def _line(name: str, tool: Tool) -> str:
    brief = brief_of(tool)
    room = LINE_TOKENS - estimate_tool_tokens(name, name=True) - estimate_tool_tokens(":\n")
    if estimate_tool_tokens(brief) > room:
        brief = _cut(brief, room - 1.0)  # a token for the mark that something is missing
    return f"{name}: {brief}" if brief else name


def _cut(text: str, room: float) -> str:
    """As much of a text as fits, up to the end of a word."""
    ends = [match.start() for match in _WORD_ENDS.finditer(text)]
    fitting = [end for end in ends if end and estimate_tool_tokens(text[:end]) <= room]
    return f"{text[: fitting[-1]].rstrip()}…" if fitting else ""
