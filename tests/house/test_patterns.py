"""The project's regular expressions match the same texts on all supported Python versions.

CPython before 3.11.5 has a bug with a possessive quantifier over a group (gh-100061, gh-106052).
Debian 12 has 3.11.2. A possessive quantifier over a single character or character class works in
all versions. The tests refuse atomic groups as well.
"""

import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]

import pytest
import regex

ROOT = Path(__file__).parents[2]
SINGLE = frozenset((codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY, codes.CATEGORY))
# `HINT` chooses the patterns that are parsed. `PART` judges a part of a pattern that cannot be
# parsed.
HINT = re.compile(r"[*+?}]\+|\(\?>")
PART = re.compile(r"(?<!\()\)(?:[*+?]|\{[\d,]*\})\+|\(\?>")


def sources() -> Iterator[Path]:
    rooms = ("nekro_core", "adapters", "plugins", "examples", "bench", "scripts", "tests")
    for room in rooms:
        yield from sorted((ROOT / room).rglob("*.py"))


def flags_of(call: ast.Call) -> int:
    """The flags among the arguments of a call, such as ``re.VERBOSE | re.DOTALL``, as a number."""
    found = 0
    for argument in (*call.args[1:], *(each.value for each in call.keywords)):
        for node in ast.walk(argument):
            if isinstance(node, ast.Attribute) and node.attr in re.RegexFlag.__members__:
                found |= re.RegexFlag[node.attr]
    return found


def texts(tree: ast.AST) -> Iterator[tuple[ast.Constant, int, bool]]:
    """Every string of a module, its flags for compiling, and whether it is surely a pattern."""
    first_arguments = {
        id(node.args[0]): flags_of(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.args
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            yield node, first_arguments.get(id(node), 0), id(node) in first_arguments


def repeats_a_group(parsed: object) -> bool:
    """Return True if a parsed pattern has an atomic group, or a possessive quantifier over a
    group."""
    if not isinstance(parsed, list | tuple | parser.SubPattern):
        return False
    pairs = [each for each in parsed if isinstance(each, tuple) and len(each) == 2]
    for op, argument in pairs:
        if op is codes.ATOMIC_GROUP:
            return True
        if op is codes.POSSESSIVE_REPEAT:
            (inner, *others) = argument[2]
            nothing = inner[0] is codes.SUBPATTERN and not inner[1][-1]
            if others or not (inner[0] in SINGLE or nothing):
                return True
    return any(map(repeats_a_group, parsed))


def wrong_somewhere(text: str | bytes, flags: int) -> bool:
    shown = text if isinstance(text, str) else text.decode("latin-1")
    if not HINT.search(shown):
        return False
    try:
        return repeats_a_group(parser.parse(text, flags))
    except re.error:
        return bool(PART.search(shown))


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (r're.compile(r"(?:[^\"\\]++|\\.)*+")', 1),
        (r'X = {1: re.compile(rb"(ab)?+")}', 1),
        ('re.match(r"""\n  (?: a  # why\n b )++""", "", re.VERBOSE)', 1),
        ('x = 1\nre.search(r"(?>a)", "")', 2),
        ('re.sub(r"a(b|(?:cd){2,3}+)", "", "")', 1),
        ('WHOLE = r"(?=(?:ab)*+)"', 1),
        ('re.compile(f"(?:{x})*+")', 1),
        ('re.compile("(?:" + x + "){,3}+")', 1),
        (r're.compile(r"[^\n]*+\w++.?+x{2}+(?:a[bc]*+)*")', None),
        (r're.compile(r"\(\+\)\+")', None),
        (r're.compile(r"\++(a)")', None),
        ('"""f(x)++ of C++"""', 1),
        ('SAFE = "!$&\'()*+,;="  # in an address', None),
        ('SAFE = "[!$&\'()*+,;="', None),
    ],
)
def test_a_group_that_is_repeated_possessively_is_found(source: str, line: int | None) -> None:
    found = [
        node.lineno
        for node, flags, _ in texts(ast.parse(source))
        if wrong_somewhere(node.value, flags)
    ]
    assert found == ([] if line is None else [line])


def test_no_pattern_of_ours_repeats_a_group_possessively() -> None:
    found = []
    for path in sources():
        if path == Path(__file__) or not HINT.search(path.read_text("utf-8")):
            continue
        for node, flags, _ in texts(ast.parse(path.read_bytes())):
            if wrong_somewhere(node.value, flags):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.value!r}")
    assert not found, "CPython before 3.11.5 matches these wrongly:\n" + "\n".join(found)


def test_the_library_regex_finds_the_same_matches_of_our_patterns_as_re() -> None:
    """Searches random texts with `re` and `regex`. The texts consist of a pattern's characters."""
    dice = random.Random(0)
    tried = 0
    for path in sources():
        if path.relative_to(ROOT).parts[0] not in ("nekro_core", "adapters", "plugins"):
            continue
        for node, flags, surely in texts(ast.parse(path.read_bytes())):
            if surely:
                match_alike(node.value, flags, dice)
                tried += 1
    assert tried > 100


def match_alike(pattern: str | bytes, flags: int, dice: random.Random) -> None:
    ours, other = re.compile(pattern, flags), regex.compile(pattern, flags_of_regex(flags))
    shown = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
    letters = "".join(sorted({*shown, *"ab1 \n"}))
    for _ in range(100):
        text = "".join(dice.choices(letters, k=dice.randrange(20)))
        given = text if isinstance(pattern, str) else text.encode("latin-1")
        spans = [found.span() for found in ours.finditer(given)]
        assert spans == [found.span() for found in other.finditer(given)], (pattern, given)


def flags_of_regex(flags: int) -> int:
    """The flags of `re` as the numbers that `regex` gives to them."""
    names = [flag.name for flag in re.RegexFlag if flag & flags]
    return sum({int(getattr(regex, str(name))) for name in names})
