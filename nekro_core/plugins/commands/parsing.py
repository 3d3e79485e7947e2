"""Reads a command's name and its handler's arguments from a person's text.

A line is split into words as in a shell. Unlike in a shell, every line is valid: an unclosed quote
is a plain character.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from pydantic import ValidationError

from nekro_core.chat import Mention, Record, Reply, Text
from nekro_core.plugins.commands.arguments import CommandParameter, CommandSignature
from nekro_core.policy.permissions import MAX_NAME, folded
from nekro_core.system.errors import NekroError

_QUOTES = {'"': '"', "'": "'", "“": "”"}
_BLANK = re.compile(r"\s+")
_WORD = re.compile(r"\S+")
_NAME = re.compile(r"([^\W\d][\w-]*)[:：]")
_ENDS = {quote: re.compile(rf"(?<!\\){re.escape(quote)}(?=\s|\Z)") for quote in _QUOTES.values()}
_ESCAPED = re.compile(r"\\([\\\"'”])")


class Word(msgspec.Struct, frozen=True):
    """One word. It is ``line[start:end]``. ``text`` is the word without its quotes. For
    ``name:value``, ``name`` and ``value`` are set too."""

    start: int
    end: int
    text: str
    name: str = ""
    value: str = ""


def split_words(line: str) -> list[Word]:
    """Split a line into words.

    A quote at the beginning of a word or value opens a quoted text if there is a closing quote that
    a blank or the end of the line follows. Any other quote is a plain character, as in ``don't``.
    In a quoted text, ``\\"`` stands for a quote.
    """
    words: list[Word] = []
    endless: set[str] = set()
    at = 0
    while True:
        if blank := _BLANK.match(line, at):
            at = blank.end()
        if at >= len(line):
            return words
        named = _NAME.match(line, at)
        begin = named.end() if named else at
        end, value = _value(line, begin, endless)
        if named:
            text = line[at:begin] + value
            words.append(Word(at, end, text, named.group(1), value))
        else:
            words.append(Word(at, end, value))
        at = end


def _value(line: str, at: int, endless: set[str]) -> tuple[int, str]:
    """Get the end of the word or value that begins at ``at``, and its text without quotes."""
    close = _QUOTES.get(line[at : at + 1])
    if close and close not in endless:
        if found := _ENDS[close].search(line, at + 1):
            return found.end(), _ESCAPED.sub(r"\1", line[at + 1 : found.start()])
        # Remember that no closing quote follows, so that a line full of opening quotes does not
        # take quadratic time.
        endless.add(close)
    word = _WORD.match(line, at)
    return (word.end(), word.group()) if word else (at, "")


_COMMAND_WORD = re.compile(r"\s*(\S+)\s*")
_LONGEST_NAME = 3 * MAX_NAME
"""The length of the longest name, ``author.module:group.name``. A longer word is not looked up."""


def command_line_of(record: Record) -> str:
    """Get the text of a record without pictures and files. Mentions become user ids.

    A mention at the beginning says to whom the message is addressed; it is left out. If the message
    begins with a mention and is not addressed to this bot, the text is empty, because the command
    is meant for another bot.
    """
    parts: list[str] = []
    addressed = False
    for segment in record.segments:
        match segment:
            case Text(text):
                parts.append(text)
            case Mention(user_id=user_id) if "".join(parts).strip():
                parts.append(f" {user_id} ")
            case Mention():
                addressed = True
            case Reply() | _:
                pass
    if addressed and not record.to_bot:
        return ""
    return "".join(parts).strip()


def command_word(line: str) -> tuple[str, str]:
    """Split a line into its first word and the text after it. Both are empty if the word is too
    long for a name."""
    found = _COMMAND_WORD.match(line)
    if found is None or len(found.group(1)) > _LONGEST_NAME:
        return "", ""
    return found.group(1), line[found.end() :]


_SHOWN = 40
_OF_A_QUESTION = "context_data"
"""The parameter that gets the ``context_data`` of a question. A person cannot set it by typing its
name."""


class ArgumentFault(StrEnum):
    """What is wrong with an argument. The catalogue has a sentence for each fault."""

    MISSING = "missing"
    TWICE = "twice"
    KIND = "kind"
    CHOICES = "choices"
    RANGE = "range"
    TOO_MUCH = "too_much"


class BadArgument(NekroError, ValueError):
    """A typed value is not valid for its argument. ``name`` is the argument's name, ``came`` the
    typed text, cut to 40 characters, ``expected`` a description of valid values."""

    def __init__(self, fault: ArgumentFault, name: str, came: str = "", expected: str = "") -> None:
        came = came if len(came) <= _SHOWN else f"{came[: _SHOWN - 1]}…"
        super().__init__(f"{fault} {name!r}: {came!r}, expected {expected!r}")
        self.fault = fault
        self.name = name
        self.came = came
        self.expected = expected


def read_arguments(
    signature: CommandSignature, line: str, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Read the handler's keyword arguments from a line. ``given`` has arguments whose values are
    already known.

    Raises `BadArgument`.
    """
    known = {folded(parameter.name): parameter for parameter in signature.parameters}
    given = {name: value for name, value in (given or {}).items() if folded(name) in known}
    texts: dict[str, str] = {}
    loose: list[Word] = []
    taken: dict[str, Any] = dict(given)
    named: list[Word] = []
    for word in split_words(line):
        parameter = known.get(folded(word.name)) if word.name else None
        # A person must not set `_OF_A_QUESTION` by typing this name.
        own = folded(word.name) == _OF_A_QUESTION
        if own or (parameter is None and not (word.name and signature.open)):
            loose.append(word)
            continue
        name = parameter.name if parameter else word.name
        if name in texts or name in taken:
            raise BadArgument(ArgumentFault.TWICE, name, word.value)
        texts[name] = word.value
        named.append(word)
    free = [
        each
        for each in signature.parameters
        if each.name not in texts | taken and each.name != _OF_A_QUESTION
    ]
    free.sort(key=lambda each: not each.info.positional)
    for parameter in free:
        if not loose:
            break
        if parameter.info.greedy:
            texts[parameter.name] = _rest(line, loose, named)
            loose = []
        else:
            texts[parameter.name] = loose.pop(0).text
    if loose:
        raise BadArgument(ArgumentFault.TOO_MUCH, "", loose[0].text)
    for parameter in signature.parameters:
        text = texts.pop(parameter.name, None)
        if text is not None:
            taken[parameter.name] = _converted(parameter, text)
        elif parameter.name in taken:
            continue
        elif parameter.required:
            hint = parameter.info.prompt_hint or parameter.info.description
            raise BadArgument(ArgumentFault.MISSING, parameter.name, "", hint)
        else:
            taken[parameter.name] = parameter.info.default
    return taken | texts


def _rest(line: str, loose: Sequence[Word], named: Sequence[Word]) -> str:
    """Get the part of the line from the first to the last word of ``loose``, as typed, without the
    ``name:value`` words in between."""
    if len(loose) == 1:
        return loose[0].text
    at, end = loose[0].start, loose[-1].end
    parts = []
    for word in named:
        if at <= word.start < end:
            parts.append(line[at : word.start].strip())
            at = word.end
    parts.append(line[at:end].strip())
    return " ".join(part for part in parts if part)


def _converted(parameter: CommandParameter, text: str) -> Any:
    value: Any = text
    if parameter.many:
        value = [part.strip() for part in text.replace("，", ",").split(",") if part.strip()]
    try:
        # Pydantic's lax mode reads "3" as a number and "yes" as true, as people mean them.
        value = parameter.adapter.validate_python(value)
    except ValidationError:
        try:
            value = parameter.adapter.validate_json(text)
        except ValidationError:
            raise BadArgument(ArgumentFault.KIND, parameter.name, text, parameter.kind) from None
    info = parameter.info
    if info.choices and value not in info.choices:
        fold = {str(choice).casefold(): choice for choice in info.choices}
        if text.casefold() not in fold:
            expected = " | ".join(map(str, info.choices))
            raise BadArgument(ArgumentFault.CHOICES, parameter.name, text, expected)
        value = fold[text.casefold()]
    if info.range is not None:
        least, most = info.range
        measured = value if isinstance(value, int | float) else len(text)
        if not least <= measured <= most:
            raise BadArgument(ArgumentFault.RANGE, parameter.name, text, f"{least:g} … {most:g}")
    return value


def read_answer(signature: CommandSignature, line: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Read the handler's keyword arguments from the reply to a question. ``data`` is the
    ``context_data`` of the question.

    If only one required parameter has no value yet, it gets the whole line, since people reply in
    free text. If none is required, a single optional parameter without a value gets the whole line.
    In all other cases the line is read like arguments. Raises `BadArgument`.
    """
    names = {parameter.name for parameter in signature.parameters}
    given = {name: value for name, value in data.items() if name in names}
    if _OF_A_QUESTION in names:
        given.setdefault(_OF_A_QUESTION, dict(data))
    free = [each for each in signature.parameters if each.name not in given]
    needed = [each for each in free if each.required] or free
    if not free:
        return given
    if len(needed) == 1:
        given[needed[0].name] = _converted(needed[0], line.strip())
        line = ""
    return read_arguments(signature, line, given)
