"""The scanner (`nekro_core.agent.turn.code_statements`) cuts code into statements. Its regular
expressions find the same ends of strings and tokens as a slow, simple reader that looks at one
character after another.

Run these tests on each supported interpreter: CPython 3.11.2 matched earlier expressions wrongly.
"""

import random
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.agent.turn import code_statements as scanner

LETTERS = "a_1é +\n\t\f\\'\"`{}()[]:#"
ROUNDS = 20_000
QUOTES = ("'", '"', "'''", '"""')
OPERATORS = "\"'#\\()[]{}:`"


def string_end(text: str, at: int, quote: str, stops: str = "") -> int:
    """The position where a string ends: at ``quote``, at one of ``stops``, or at the end of the
    text. If the quote is one character, the string also ends at the end of its line."""
    while at < len(text):
        if text.startswith(quote, at) or text[at] in stops:
            return at
        if text[at] == "\n" and len(quote) == 1:
            return at
        escape = text[at] == "\\" and at + 1 < len(text) and text[at + 1] not in stops
        at += 2 if escape else 1
    return len(text)


def run_of(text: str, at: int, belongs: Callable[[str], bool]) -> int:
    while at < len(text) and belongs(text[at]):
        at += 1
    return at


def word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def token(text: str, at: int) -> tuple[str, int]:
    """The kind and the end of the token that begins at ``at``."""
    here = text[at]
    if here in " \t\f":
        return "space", run_of(text, at, lambda letter: letter in " \t\f")
    if here == "#":
        return "comment", run_of(text, at, lambda letter: letter != "\n")
    if text.startswith("\\\n", at):
        return "continued", at + 2
    if here == "\n":
        return "newline", at + 1
    if here in "\"'":
        return "quote", at + (3 if text.startswith(here * 3, at) else 1)
    for kind, signs in (("open", "([{"), ("close", ")]}"), ("colon", ":")):
        if here in signs:
            return kind, at + 1
    if text.startswith("```", at):
        return "fence", run_of(text, at, lambda letter: letter == "`")
    if word(here):
        return "word", run_of(text, at, word)
    if here in OPERATORS:
        return "other", at + 1
    goes_on = run_of(text, at, lambda x: not (x.isspace() or word(x) or x in OPERATORS))
    # `run_of` finds nothing at a blank that no branch above handles, for example a no-break space.
    # Such a blank is a token of one character.
    return "other", max(goes_on, at + 1)


def compare(text: str, at: int) -> None:
    for quote in QUOTES:
        found = scanner._next_stop(scanner._STRING_STOP[quote], text, at)
        assert found == string_end(text, at, quote), ("string", quote, text, at)
        found = scanner._next_stop(scanner._FORMATTED_STOP[quote], text, at)
        assert found == string_end(text, at, quote, "{}"), ("f-string", quote, text, at)
    plain = scanner._PLAIN.match(text, at)
    assert plain is not None
    assert plain.end() == run_of(text, at, lambda letter: letter not in OPERATORS + "\n"), text
    indentation = scanner._LINE_START.match(text, at)
    assert indentation is not None
    assert indentation.end() == run_of(text, at, lambda letter: letter in " \t\f"), text
    if at < len(text):
        found_token = scanner._CODE_TOKEN.match(text, at)
        assert found_token is not None
        assert (found_token.lastgroup, found_token.end()) == token(text, at), (text, at)


@given(st.text(st.sampled_from(LETTERS) | st.characters(exclude_categories=["Cs"]), max_size=40))
def test_the_scanner_agrees_with_the_simple_reader_on_any_text(text: str) -> None:
    for at in range(len(text) + 1):
        compare(text, at)


def test_the_scanner_agrees_with_the_simple_reader_on_quotes_and_brackets() -> None:
    dice = random.Random(12)
    for _ in range(ROUNDS):
        text = "".join(dice.choices(LETTERS, k=dice.randrange(1, 30)))
        compare(text, dice.randrange(len(text) + 1))


SIZE = 1_000_000
HOSTILE = {
    "backslashes": "x = '" + "\\" * SIZE,
    "backslashes in an f-string": "x = f'" + "\\" * SIZE,
    "escaped quotes": "x = '''" + "\\'" * (SIZE // 2),
    "lone quotes": 'x = """' + '" ' * (SIZE // 2),
    "pairs of quotes": 'x = f"""' + '"" ' * (SIZE // 3),
    "braces": "x = f'" + "{{" * (SIZE // 2),
    "escaped braces": "x = f'" + "\\{{" * (SIZE // 3),
    "fields": "x = f'" + "{" * SIZE,
    "letters": "x = '" + "a" * SIZE,
    "a word": "a" * SIZE,
    "blanks": " " * SIZE,
    "operators": "+" * SIZE,
    "pairs of backticks": "`` " * (SIZE // 3),
    "brackets": "(" * SIZE,
    "empty strings": "''" * (SIZE // 2),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_megabyte_of_one_sign_takes_linear_time(text: str) -> None:
    began = time.process_time()
    scanner.StatementScanner().line(text + "\n", 1)
    # Measured at 0.02 to 1.6 s (for the brackets). An algorithm of quadratic time takes an hour.
    assert time.process_time() - began < 20
