"""Cuts Python source into whole top-level statements, line by line and as early as possible.

Each line is scanned once, when it is complete. Between two lines the scanner stores what is not
closed yet: brackets, strings, and a compound statement that an ``else`` may continue. So the time
is linear in the length of the text. Parsing all previous lines again for each line would take 18 s
for 16,000 lines. Python's module `codeop` is not suitable: it separates ``if`` from ``else`` and
splits ``match``.

The compiler in the box decides whether code is correct. If a line can never become correct (an
unclosed string, brackets that do not match), the scanner ends the statement there. So the box
reports the error at once, and the scanner reads on in the rest of the reply.
"""

import re
from dataclasses import dataclass

from nekro_core.system.errors import NekroError

_CONTINUING = ("else", "elif", "except", "finally")
_COMPOUND = frozenset(("if", "for", "while", "try", "with", "def", "class", "async", *_CONTINUING))
_FORMATTED = frozenset(("f", "fr", "rf", "t", "tr", "rt"))
_CLOSES = {")": "(", "]": "[", "}": "{"}
_TAB = 8  # columns from one tab stop to the next, as in CPython

_CODE_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\f]+)
    | (?P<comment>\#[^\n]*)
    | (?P<continued>\\\n)
    | (?P<newline>\n)
    | (?P<quote>\"{3}|'{3}|\"|')
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<colon>:)
    | (?P<fence>`{3,})
    | (?P<word>\w+)
    | (?P<other>[^\s\w"'\#\\()\[\]{}:`]+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
# Characters that do not change the scanner's state within a logical line: names, numbers, operators
# and blanks.
_PLAIN = re.compile(r"[^\"'#\\()\[\]{}:`\n]*")
_PREFIX = re.compile(r"\w*\Z")
# These patterns match a place where a string or its line may end, or one escape, which the caller
# skips. They have no repetition: a repeated group stores a backtracking point for each round, and
# possessive groups are wrong in CPython before 3.11.5, also in Debian 12's (gh-100061, gh-106052).
# They use "|" and not a character class such as [ab]. Then `re` skips quickly to the next character
# with which a match can begin.
_STRING_STOP = {
    "'": re.compile(r"\\.|'|\n", re.DOTALL),
    '"': re.compile(r'\\.|"|\n', re.DOTALL),
    "'''": re.compile(r"\\.|'''", re.DOTALL),
    '"""': re.compile(r'\\.|"""', re.DOTALL),
}
# The same patterns for the literal part of an f-string, where a backslash never escapes a brace.
_FORMATTED_STOP = {
    "'": re.compile(r"\\[^{}]|'|\n|\{|\}"),
    '"': re.compile(r'\\[^{}]|"|\n|\{|\}'),
    "'''": re.compile(r"\\[^{}]|'''|\{|\}"),
    '"""': re.compile(r'\\[^{}]|"""|\{|\}'),
}
_LINE_START = re.compile(r"[ \t\f]*")


@dataclass(frozen=True, slots=True)
class CodeStatement:
    """The complete top-level statements of one logical line, or one complete compound statement.

    ``line`` is the number of the first line of ``source`` in the reply, counted from 1.
    """

    source: str
    line: int


@dataclass(slots=True)
class _Open:
    """A bracket, string or field that a later character must close.

    ``what`` is a bracket, or ``"string"``, ``"formatted"`` (the literal part of an f-string),
    ``"field"`` (its ``{...}``) or ``"spec"`` (the part after the colon in a field).
    """

    what: str
    quote: str = ""


class _Broken(NekroError):
    """The line can never become valid Python."""


class StatementScanner:
    """Splits lines into statements. Lines end in ``\\n``. The caller numbers the lines."""

    _lines: list[str]
    _first_line: int
    _used: int  # number of lines up to the last line with a token
    _open: list[_Open]
    _begun: bool  # whether the current logical line already has a token
    _column: int  # that line's indentation if it begins with a lone backslash, else 0
    _first_word: str
    _last: str
    _compound: bool
    _decorated: bool

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._lines, self._first_line, self._used = [], 0, 0
        self._open = []
        self._begun, self._column = False, 0
        self._first_word = self._last = ""
        self._compound = self._decorated = False

    @property
    def in_string(self) -> bool:
        """Whether the next line begins inside a string."""
        return bool(self._open) and self._open[-1].what in ("string", "formatted")

    def line(self, text: str, number: int) -> tuple[list[CodeStatement], int | None]:
        """Scan one complete line.

        Returns the statements that the line completes, and the position of three or more backticks
        outside strings and comments, or None. Python has no such token, so the code block ends at
        the backticks. The text from there on is not scanned, and the caller must call `flush` next.
        """
        done = self.peek(text)
        if not self._lines:
            self._first_line = number
        self._lines.append(text)
        try:
            fence = self._scan(text)
        except _Broken:
            self._used = len(self._lines)
            return [*done, *self.flush()], None
        if fence is not None:
            self._lines[-1] = text[:fence] + "\n"
            return done, fence
        if not self._used:
            self._lines.clear()
        elif not self._open and not self._begun and not self._compound:
            done += self.flush()
        return done, None

    def peek(self, text: str) -> list[CodeStatement]:
        """Return the pending statement if the beginning of the next line completes it.

        A compound statement ends when the next token in column 0 cannot be a keyword that continues
        the statement. Often the first character of the token already shows that.
        """
        if not self._compound or self._decorated or self._open or self._begun or self._column:
            return []
        start = _LINE_START.match(text)
        assert start is not None
        rest = text[start.end() : start.end() + 12]
        if not rest or rest[0] in "#\n\\" or _column_of(start.group()) > 0:
            return []
        for keyword in _CONTINUING:
            if keyword.startswith(rest):
                return []  # the token may still become the keyword
            if rest.startswith(keyword) and not _is_word(rest[len(keyword)]):
                return []
        return self.flush()

    def flush(self) -> list[CodeStatement]:
        """Return the pending statement, even if it is incomplete. Call this at the end of the code
        block, or if the block can never become correct."""
        source = "".join(self._lines[: self._used])
        statements = [CodeStatement(source, self._first_line)] if self._used else []
        self._reset()
        return statements

    def _scan(self, text: str) -> int | None:
        """Update the state with one line. Returns the position of the closing fence, or None."""
        position = 0
        while position < len(text):
            top = self._open[-1] if self._open else None
            if top is not None and top.what == "string":
                position = self._scan_string(text, position, top)
            elif top is not None and top.what in ("formatted", "spec"):
                position = self._scan_formatted(text, position, top)
            else:
                if self._begun:
                    position = self._skip_plain(text, position)
                token = _CODE_TOKEN.match(text, position)
                assert token is not None
                if token.lastgroup == "fence":
                    return position
                self._take(token)
                position = token.end()
        return None

    def _skip_plain(self, text: str, position: int) -> int:
        plain_code = _PLAIN.match(text, position)
        assert plain_code is not None
        if plain := plain_code.group().rstrip(" \t\f"):
            self._used = len(self._lines)
            self._last = plain[-1]
        return plain_code.end()

    def _take(self, token: re.Match[str]) -> None:
        """Update the state with one token of code."""
        group, text = token.lastgroup, token.group()
        if group in ("space", "comment"):
            return
        if group == "newline":
            self._end_line()
            return
        if group == "continued":
            if not self._begun and not self._column:
                # A backslash can join several physical lines. As in CPython, the first
                # indentation that is not empty counts.
                self._column = _column_of(token.string[: token.start()])
            return
        # With any other token, the line is part of a statement.
        self._used = len(self._lines)
        if not self._begun:
            self._begin_logical_line(text)
        self._last = text[-1]
        if group == "quote":
            # Three characters are enough to distinguish a prefix from the end of a longer name.
            before = _PREFIX.search(token.string[max(token.start() - 3, 0) : token.start()])
            formatted = before is not None and before.group().lower() in _FORMATTED
            self._open.append(_Open("formatted" if formatted else "string", text))
        elif group == "open":
            self._open.append(_Open(text))
        elif group == "close":
            self._close(text)
        elif group == "colon" and self._open and self._open[-1].what == "field":
            self._open.append(_Open("spec", self._open[-1].quote))

    def _begin_logical_line(self, token: str) -> None:
        self._begun = True
        if self._compound:
            self._decorated = self._decorated and token[0] == "@"
            return
        self._first_word = token
        self._decorated = token[0] == "@"
        self._compound = self._decorated or token in _COMPOUND

    def _end_line(self) -> None:
        if self._open:
            self._used = len(self._lines)
            return
        if self._first_word == "match" and self._last == ":":
            self._compound = True
        self._begun, self._column = False, 0

    def _close(self, bracket: str) -> None:
        top = self._open.pop() if self._open else None
        if top is None or (
            top.what != _CLOSES[bracket] and not (top.what == "field" and bracket == "}")
        ):
            raise _Broken

    def _scan_string(self, text: str, position: int, top: _Open) -> int:
        self._used = len(self._lines)
        position = _next_stop(_STRING_STOP[top.quote], text, position)
        if text.startswith(top.quote, position):
            self._open.pop()
            self._last = "s"
            return position + len(top.quote)
        if position < len(text):
            raise _Broken  # the line ended, but the string did not
        return position

    def _scan_formatted(self, text: str, position: int, top: _Open) -> int:
        self._used = len(self._lines)
        position = _next_stop(_FORMATTED_STOP[top.quote], text, position)
        if position >= len(text):
            return position
        if text.startswith(top.quote, position):
            if top.what == "spec":
                raise _Broken
            self._open.pop()
            self._last = "s"
            return position + len(top.quote)
        here = text[position]
        if here == "\n":
            raise _Broken
        if top.what == "formatted" and text.startswith(here * 2, position):
            return position + 2
        if here == "{":
            self._open.append(_Open("field", top.quote))
        elif top.what == "spec":
            del self._open[-2:]  # removes the spec and its field
        else:
            raise _Broken  # a single "}" is not valid
        return position + 1


def _next_stop(stop: re.Pattern[str], text: str, position: int) -> int:
    """Return the position of the next match that is not an escape, or the end of the text."""
    while hit := stop.search(text, position):
        if text[hit.start()] != "\\":
            return hit.start()
        position = hit.end()
    return len(text)


def _column_of(indentation: str) -> int:
    column = 0
    for character in indentation:
        if character == "\t":
            column = (column // _TAB + 1) * _TAB
        elif character == "\f":
            column = 0
        else:
            column += 1
    return column


def _is_word(character: str) -> bool:
    return character == "_" or character.isalnum()
