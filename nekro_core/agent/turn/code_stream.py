"""Splits a model's reply into prose and code statements while the model writes the reply.

A fenced block is code if its fence has no name or the name ``python``, ``py`` or ``python3``. A
block with another name is prose, including its fences. A fence inside a string literal is part of
the string. Models also write code between fences of tildes (``~~~python``) and between tags
(``<code>``). A fence of tildes without a name is prose, because such lines separate paragraphs.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

from nekro_core.agent.turn.code_statements import CodeStatement, StatementScanner

_CODE_NAMES = frozenset(("", "python", "py", "python3", "tool_code"))
_OPENING = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)\n\Z")
_TAG = re.compile(
    r"(?P<indent>[ \t]*)(?:<pre[^<>\n]*>[ \t]*)?<(?P<tag>code|python|tool_code|execute)"
    r"(?:[ \t][^<>\n]*)?>(?P<rest>[^\n]*\n)\Z",
    re.IGNORECASE,
)
# Models write "Here you are: ```python" and "1. ```python". Markdown does not allow other text
# before a fence, but here such a line opens a block too.
_OPENING_LATE = re.compile(
    r"(?P<before>[^`\n]*)(?P<fence>`{3,})(?:python3?|py)[ \t]*\n\Z", re.IGNORECASE
)
_REOPENING = re.compile(r"`{3,}(?:python3?|py)[ \t]*\n\Z", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEEPEST_INDENT = 12
# An unfinished line is searched for the end of the previous statement only until it has this many
# characters.
_PEEK = 64


@dataclass(frozen=True, slots=True)
class Prose:
    """A line of prose, or the prose before an opening fence or after a closing fence on the fence's
    line. ``line`` is the number of the line in the reply, counted from 1."""

    text: str
    line: int


StreamEvent = Prose | CodeStatement


class _Mode(Enum):
    PROSE = auto()
    CODE = auto()
    OTHER_BLOCK = auto()


class CodeStream:
    """Converts pieces of a reply into events, each as early as possible.

    A simple statement is complete at the end of its logical line. A compound statement is complete
    at the next token in column 0. Both are complete at the fence that closes the block.
    ``bare_code`` is for models that a grammar restricts to code: the whole reply is one code block
    without fences.
    """

    def __init__(self, *, bare_code: bool = False) -> None:
        self._mode = _Mode.CODE if bare_code else _Mode.PROSE
        self.begun = bare_code
        """Whether a code block has begun."""
        self._scanner = StatementScanner()
        self._parts: list[str] = []
        self._part_length = 0
        self._number = 1
        self._after_return = False
        self._indent_limit = 0
        self._indent: int | None = None
        self._fence = "```"
        self._closing: re.Pattern[str] | None = None
        """Matches the line that ends the code block, if the block did not begin with backticks."""

    @property
    def line(self) -> str:
        """The part of the last line that has arrived."""
        return "".join(self._parts)

    def feed(self, chunk: str) -> list[StreamEvent]:
        """Process the next piece of the reply. Line ends may be ``\\n``, ``\\r\\n`` or ``\\r``."""
        if self._after_return and chunk.startswith("\n"):
            chunk = chunk[1:]
            self._after_return = False
        if not chunk:
            return []
        self._after_return = chunk.endswith("\r")
        if "\r" in chunk:
            chunk = chunk.replace("\r\n", "\n").replace("\r", "\n")
        first, *rest = _SURROGATE.sub("\ufffd", chunk).split("\n")
        self._add_part(first)
        events: list[StreamEvent] = []
        for part in rest:
            events += self._end_line("\n")
            self._add_part(part)
        if self._mode is _Mode.CODE and self._parts:
            before = self._part_length - len(self._parts[-1])
            if before < _PEEK:
                events += self._scanner.peek(self._without_indent("".join(self._parts)))
        return events

    def finish(self) -> list[StreamEvent]:
        """End the reply. Returns the remaining events, even if the last statement is incomplete."""
        events = self._end_line("") if self._part_length else []
        return [*events, *self._scanner.flush()]

    def _add_part(self, part: str) -> None:
        if part:
            self._parts.append(part)
            self._part_length += len(part)

    def _end_line(self, ending: str) -> list[StreamEvent]:
        text = "".join(self._parts) + ending
        self._parts.clear()
        self._part_length = 0
        events = self._line(text)
        self._number += 1
        return events

    def _line(self, text: str) -> list[StreamEvent]:
        if self._number == 1:
            text = text.removeprefix("\ufeff")
        if self._mode is _Mode.CODE:
            return self._code_line(text)
        if self._mode is _Mode.OTHER_BLOCK:
            if text.strip().startswith(self._fence) and not text.strip().strip(self._fence[0]):
                self._mode = _Mode.PROSE
            return self._prose(text)
        return self._prose_line(text)

    def _prose(self, text: str) -> list[StreamEvent]:
        return [Prose(text, self._number)] if text else []

    def _prose_line(self, text: str) -> list[StreamEvent]:
        line = text if text.endswith("\n") else text + "\n"
        if opening := _OPENING.match(line):
            self._fence = opening.group("fence")
            name, *_ = opening.group("info").split() or [""]
            tildes = self._fence[0] == "~"
            if tildes and not name:
                return self._prose(text)
            if name.lower() not in _CODE_NAMES:
                self._mode = _Mode.OTHER_BLOCK
                return self._prose(text)
            self._begin_block(len(opening.group("indent")))
            if tildes:
                self._closing = re.compile(rf"(?P<code>)[ \t]*{self._fence}~*[ \t]*\n?\Z")
            return []
        if opening := _TAG.match(line):
            self._begin_block(len(opening.group("indent")))
            tag = opening.group("tag")
            self._closing = re.compile(
                rf"(?P<code>[^\n]*)</{tag}>(?:[ \t]*</pre>)?[ \t]*\n?\Z", re.IGNORECASE
            )
            rest = opening.group("rest")
            return self._code_line(rest) if rest.strip() else []
        if opening := _OPENING_LATE.match(line):
            self._begin_block(_DEEPEST_INDENT)
            return self._prose(opening.group("before") + "\n")
        return self._prose(text)

    def _begin_block(self, indent_limit: int) -> None:
        self._mode = _Mode.CODE
        self.begun = True
        self._indent_limit, self._indent = indent_limit, None
        self._closing = None

    def _code_line(self, text: str) -> list[StreamEvent]:
        if self._closing is not None and not self._scanner.in_string:
            closing = self._closing.match(text)
            if closing is not None:
                events = self._code_line_inside(closing.group("code") + "\n")
                self._mode = _Mode.PROSE
                return [*events, *self._scanner.flush()]
        return self._code_line_inside(text)

    def _code_line_inside(self, text: str) -> list[StreamEvent]:
        if self._indent is None:
            text = text.removeprefix("\ufeff")
            if text.strip():
                self._indent = min(self._indent_limit, len(text) - len(text.lstrip(" \t")))
        text = self._without_indent(text)
        text = text if text.endswith("\n") else text + "\n"
        done, fence = self._scanner.line(text, self._number)
        if fence is None:
            return [*done]
        events: list[StreamEvent] = [*done, *self._scanner.flush()]
        after = text[fence:]
        if _REOPENING.match(after):
            self._begin_block(self._indent_limit)
            return events
        self._mode = _Mode.PROSE
        after = after.lstrip("`").lstrip()
        return [*events, *self._prose(after)]

    def _without_indent(self, text: str) -> str:
        """Return the line without the indentation of its block's fence."""
        for taken in range(self._indent or 0):
            if text[taken : taken + 1] not in (" ", "\t"):
                return text[taken:]
        return text[self._indent or 0 :]


# Each sample is the list of its statements. If the scanner misreads a statement's body, it ends the
# statement too early.
_SAMPLES = (
    ('class A:\n    """What "it" is."""\n\n    x = 1\n', "print(A.x)\n"),
    ("def f():\n    '''One 'word' and\n\n``` two.\n    '''\n    return {'a': [1]}\n", "f()\n"),
    ("if 1:\n    a = 'it\\'s (\\''\n    b = rf'\\{a}'\nelse:\n    c = \"\\\" ' [\"\n", "d = 1\n"),
    (
        'for x in (\n1,):\n    y = f"""{x:>{8}} {{ "one" "" {\nx} \\"""}}"""\n\n    z = y\n',
        "print(z)\n",
    ),
)


def misread_samples() -> list[str]:
    """Split a few fixed samples of code, and return those that are split wrongly with this Python
    version. `nekro doctor` calls this. The `re` of Debian 12's Python has a fault because of which
    an earlier version of the scanner split a class in two."""
    return ["".join(sample) for sample in _SAMPLES if _cut("".join(sample)) != list(sample)]


def _cut(source: str) -> list[str]:
    stream = CodeStream(bare_code=True)
    events = [*stream.feed(source), *stream.finish()]
    return [event.source for event in events if isinstance(event, CodeStatement)]
