"""Parses the Markdown that models write. Text that only looks like Markdown stays text.

People and models write ``snake_case``, ``2 * 3``, ``~~`` as a long vowel, faces such as ``>_<`` and
``¯\\_(ツ)_/¯``. So this module reads CommonMark with tables and formulas, but without the
markup that such texts would contain by accident: emphasis with underscores, text that is struck
out, code by indentation, headings by underlining, references, HTML, and entities such as ``&lt;``.
A quote needs a space after its ``>``, and a backslash only protects characters that are markup
here.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, blockquote
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.emphasis import tokenize as tokenize_emphasis
from markdown_it.tree import SyntaxTreeNode
from mdit_py_plugins.dollarmath import dollarmath_plugin

LONGEST = 12_000
"""Maximum number of characters of a text that is parsed. A longer text is sent as it is. Parsing
runs on the event loop. The worst texts, such as thousands of open brackets, take about 0.1 s at
this length; the time grows with the square of the length."""
_NESTING = 20
"""Maximum depth of nested blocks and of nested inline markup; deeper markup stays text."""
_PROTECTED = frozenset("*`#>[]()|!$\\")
"""The characters that a backslash protects. Before any other character, a backslash is text."""
_FORMULA_CHARS = 1_000
"""Maximum number of characters of a formula in ``\\(...\\)`` or ``\\[...\\]``."""
_SCHEMES = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_HINT = re.compile(
    r"[*`#|$]|\\[(\[]|\]\(|<(?:https?|mailto):|^\s*(?:>|[-+]|\d+[.)])\s", re.MULTILINE
)
"""Each text with markup matches this pattern. A text that does not match is not parsed."""


def parse_markdown(source: str) -> SyntaxTreeNode | None:
    """Parse a text.

    Args:
        source: The text.

    Returns:
        The root of the syntax tree; None if the text has no markup, or more than `LONGEST`
        characters. Such a text is shown as it is.
    """
    if len(source) > LONGEST or not _HINT.search(source):
        return None
    tree = SyntaxTreeNode(_parser().parse(source))
    return tree if any(node.type not in _UNMARKED for node in tree.walk()) else None


_UNMARKED = frozenset({"root", "paragraph", "inline", "text", "softbreak"})
"""The kinds of nodes that a text without markup has."""


def is_web_address(address: str) -> bool:
    """Return whether a link may have this address. It must be an address of the web or of mail."""
    return _SCHEMES.match(address.strip()) is not None


class _WebMarkdown(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802 - the library's name
        """Return whether a link may have this address."""
        return is_web_address(url)


@lru_cache(1)
def _parser() -> MarkdownIt:
    parser = _WebMarkdown("commonmark", {"html": False, "breaks": True, "maxNesting": _NESTING})
    parser.enable("table")
    parser.disable(["code", "lheading", "reference", "entity", "html_block", "html_inline"])
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    parser.inline.ruler.at("emphasis", _emphasis_with_stars)
    parser.inline.ruler.at("escape", _escaped_mark)
    parser.block.ruler.at(
        "blockquote", _quote_with_space, {"alt": ["paragraph", "blockquote", "list"]}
    )
    return parser


def _emphasis_with_stars(state: StateInline, silent: bool) -> bool:
    return state.src[state.pos] == "*" and tokenize_emphasis(state, silent)


def _escaped_mark(state: StateInline, silent: bool) -> bool:
    """Read what begins with a backslash: a markup character that the backslash protects, or a
    formula between ``\\(`` and ``\\)`` or between ``\\[`` and ``\\]``."""
    at = state.pos
    if state.src[at] != "\\" or at + 1 >= state.posMax or state.src[at + 1] not in _PROTECTED:
        return False
    if (closing := _CLOSING.get(state.src[at + 1])) and _formula(state, closing, silent):
        return True
    if not silent:
        token = state.push("text_special", "", 0)
        token.content = state.src[at + 1]
        token.markup = state.src[at : at + 2]
        token.info = "escape"
    state.pos += 2
    return True


_CLOSING = {"(": "\\)", "[": "\\]"}


def _formula(state: StateInline, closing: str, silent: bool) -> bool:
    begin = state.pos + 2
    end = state.src.find(closing, begin, min(begin + _FORMULA_CHARS, state.posMax))
    if end <= begin:
        return False
    if not silent:
        kind = "math_inline" if closing == "\\)" else "math_inline_double"
        state.push(kind, "math", 0).content = state.src[begin:end]
    state.pos = end + 2
    return True


_quote: Callable[[StateBlock, int, int, bool], bool] = blockquote


def _quote_with_space(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    begin = state.bMarks[line] + state.tShift[line]
    return state.src[begin : begin + 2] in ("> ", ">\n", ">", ">>") and _quote(
        state, line, end, silent
    )
