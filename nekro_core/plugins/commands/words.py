"""The words of a line: split as a shell does, but nothing that a person types is an error."""

import re

import msgspec

_QUOTES = {'"': '"', "'": "'", "“": "”"}
_BLANK = re.compile(r"\s+")
_WORD = re.compile(r"\S+")
_NAME = re.compile(r"([^\W\d][\w-]*)[:：]")
_ENDS = {quote: re.compile(rf"(?<!\\){re.escape(quote)}(?=\s|\Z)") for quote in _QUOTES.values()}
_ESCAPED = re.compile(r"\\([\\\"'”])")


class Word(msgspec.Struct, frozen=True):
    """One word. ``start`` and ``end`` are where it stands in the line. ``text`` is what it says
    without its quotes; where it is ``name:value``, ``name`` and ``value`` are set too."""

    start: int
    end: int
    text: str
    name: str = ""
    value: str = ""


def split_words(line: str) -> list[Word]:
    """All words of a line.

    A quote counts at the beginning of a word or of a value, and where it has an end before a blank;
    otherwise it is a character like any other, as in ``don't``. In quotes, ``\\"`` is a quote.
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
    """What stands from here to the end of the word, without its quotes."""
    close = _QUOTES.get(line[at : at + 1])
    if close and close not in endless:
        if found := _ENDS[close].search(line, at + 1):
            return found.end(), _ESCAPED.sub(r"\1", line[at + 1 : found.start()])
        # Looked for once: a line of opening quotes alone would take the square of its length.
        endless.add(close)
    word = _WORD.match(line, at)
    return (word.end(), word.group()) if word else (at, "")
