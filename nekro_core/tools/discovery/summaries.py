"""Writes one short line for each deferred tool, with limits on length and number.

A deferred tool is a tool that the prompt does not show in full. Its line is ``name: brief``; the
brief is the first sentence of the tool's description.
"""

import re
from collections import Counter
from collections.abc import Iterable

from nekro_core.tools.names import NamedTool
from nekro_core.tools.tool import Tool

LINE_TOKENS = 11.2
"""If a line would have more estimated tokens than this, its brief is cut. Briefs in Chinese or
Japanese have other limits. The estimate is a sixth too high. A list of 300 tools in the tests costs
fewer than 12 tokens for each tool, including the introduction of the list and the search tool."""
CJK_CHARACTERS = 12
"""A Chinese or Japanese brief that is too long for the line keeps at least this many characters,
however long the tool's name is. It keeps fewer if so many characters would cost more than
`CJK_TOKENS`. `LINE_TOKENS` would allow only six characters, from which nobody can guess the
rest."""
CJK_TOKENS = 13.0
"""Maximum number of estimated tokens of a Chinese or Japanese brief that is cut. The limit is
needed because the description of a third party may consist of characters that cost more than usual
ones."""
MAX_LINES = 400
"""Maximum number of tools with a line. For further tools, only their plugins are named."""

_LONGEST_WORD = 24
"""Maximum number of letters of a normal word. A server of a third party may send thousands of
letters without a space."""
_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]{1,3}|[^\sA-Za-z0-9_]|_(?![A-Za-z])|\n")
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s|[。！？\n]")
_WORD_ENDS = re.compile(r"(?<=[\w)])(?=[\s，、；：,;:（(])|(?<=[\u3041-\u9fff])")
_EMPTY_END = re.compile(
    r"(?:(?:^|\s)(?:an?|the|this|of|and|or|than|that|to|in|on|for|from|with|by|its?|is|as|at|who|"
    r"what|which|when|between|into|per)[,;:]?)+$|[,;:(]+$",
    re.IGNORECASE,
)
_FILLING = re.compile(
    r"^(?:this (?:tool|function) (?:is used to |can )?|used to |用于|用来)", re.IGNORECASE
)


def deferred_lines(tools: Iterable[tuple[str, NamedTool]], limit: int = MAX_LINES) -> list[str]:
    """Make a line ``name: brief`` for each tool. The name is the tool's name in the model's code.

    A tool gets no line if its name is too long or if there are already ``limit`` lines. For these
    tools, a line for each plugin says how many of them it has. A search still finds them.
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
    """Estimate the o200k_base tokens of a short text. Words inside a name take more tokens, since
    there is no space before them."""
    total = 0.0
    for piece in _PIECE.findall(text):
        if piece.isascii() and piece.isalpha():
            long, longer = (4, 8) if name else (8, 12)
            # The tokenizer cuts a piece that is longer than any real word into many tokens.
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
    """Get the first sentence of a tool's description."""
    told = " ".join((tool.description or tool.summary).split())
    first = _END_OF_SENTENCE.split(told, maxsplit=1)[0]
    return _FILLING.sub("", first).rstrip(" .。")


def _line(name: str, tool: Tool) -> str:
    brief = brief_of(tool)
    room = LINE_TOKENS - estimate_tool_tokens(name, name=True) - estimate_tool_tokens(":\n")
    if estimate_tool_tokens(brief) > room:
        # The ellipsis takes one token.
        brief = _cut_cjk(brief) if _is_cjk(brief) else _cut(brief, room - 1.0)
    return f"{name}: {brief}" if brief else name


def _cut(text: str, room: float) -> str:
    """Return the beginning of a text, up to the end of a word, with at most ``room`` estimated
    tokens."""
    shown = 0
    for end in _word_ends(text):
        if estimate_tool_tokens(text[:end]) > room:
            break
        shown = end
    return _shown(text, shown)


def _cut_cjk(text: str) -> str:
    """Return at least the first `CJK_CHARACTERS` of a text, up to the end of a word. Return fewer
    if so many characters, or the rest of the last word, would be too much."""
    shown = 0
    for end in _word_ends(text):
        too_much = estimate_tool_tokens(text[:end]) > CJK_TOKENS or end > 2 * CJK_CHARACTERS
        if shown >= CJK_CHARACTERS or too_much:
            break
        shown = end
    return _shown(text, shown)


def _word_ends(text: str) -> list[int]:
    return [*filter(None, (match.start() for match in _WORD_ENDS.finditer(text))), len(text)]


def _shown(text: str, end: int) -> str:
    """Return the beginning of a text with an ellipsis. Words at the end that say nothing (``of
    the``) are left out."""
    if end == len(text):
        return text
    beginning = _EMPTY_END.sub("", text[:end]).rstrip()
    return f"{beginning}…" if beginning else ""


def _is_cjk(text: str) -> bool:
    """Return True if at least a third of a text's characters are Chinese or Japanese."""
    found = sum(1 for each in text if "\u3041" <= each <= "\u9fff")
    return found * 3 >= len(text)
