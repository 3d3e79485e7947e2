"""The rules of expressions in the texts that a small model writes: ``f"{37 * 43} apples"``.

A model of half a billion parameters cannot compute, but it can copy numbers and words from a
question into an expression, which Python then computes. The rules allow arithmetic and the
functions that are builtins of every run (`nekro_core/sandbox/guest/guest_calculations.py`). A pair
of braces always has an operator or a call: in ``{1581}`` the model would have computed itself.
Numbers are short and powers are small, so that no expression computes for long.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from nekro_core.llm.gbnf import CharacterRange, RepeatRule, Rule, RuleRef, choice, optional, seq

NUMBER, TEXT, LANGUAGE = "number", "text", "language"
NUMBER_FUNCTIONS: Mapping[str, Sequence[str]] = {
    "days_until": (TEXT,),
    "days_since": (TEXT,),
    "days_between": (TEXT, TEXT),
    "days_in": (TEXT,),
    "years_since": (TEXT,),
    "minutes_between": (TEXT, TEXT),
    "convert": (NUMBER, TEXT, TEXT),
    "percent_of": (NUMBER, NUMBER),
    "average_of": (NUMBER, "more numbers"),
    "sqrt": (NUMBER,),
    "factorial": (NUMBER,),
    "count_in": (TEXT, TEXT),
    "letters_in": (TEXT,),
    "words_in": (TEXT,),
}
"""The functions whose result is a number, with the kinds of their arguments."""
TEXT_FUNCTIONS: Mapping[str, Sequence[str]] = {
    "today": (LANGUAGE,),
    "clock": (),
    "weekday": (TEXT, LANGUAGE),
    "date_after": (NUMBER, TEXT, TEXT, LANGUAGE),
    "time_after": (TEXT, NUMBER, TEXT),
    "reverse_text": (TEXT,),
}
"""The functions whose result is a text. No sum can contain it."""

MAX_EXPRESSIONS = 4
"""Maximum number of expressions in one text."""
MAX_OPERATIONS = 11
"""Maximum number of operations in a row: the sum of twelve numbers."""
MAX_ARGUMENT = 120
"""Maximum number of characters of a text inside an expression: a sentence whose words are
counted."""
_BEFORE, _AFTER = 200, 100
"""Maximum number of characters before the first expression, and after each."""
_DECIMAL_FORMAT = ":.10g"
"""Writes 12.0 as 12, and 0.1 + 0.2 as 0.3. The model gets no other choice."""
_PLAIN_LANGUAGE = "en"

_DIGIT = CharacterRange((("0", "9"),))
_CONTROLS = (("\x00", "\x1f"), ("\x7f", "\x9f"), ("\u2028", "\u2029"))
_ENCLOSING = (("{", "{"), ("}", "}"), ("'", "'"), ('"', '"'), ("\\", "\\"))
# In Python 3.11, the text in the braces of an f-string may have neither its quote nor a backslash.
_QUOTED = CharacterRange((*_ENCLOSING, *_CONTROLS), negated=True)
_LITERAL = CharacterRange((*_ENCLOSING[:2], *_ENCLOSING[3:], *_CONTROLS), negated=True)
_ESCAPES = CharacterRange((("n", "n"), ('"', '"'), ("\\", "\\")))


def expression_rules(language: str, taken: Collection[str] = ()) -> dict[str, Rule]:
    """Return the rules; ``computed-text`` is a text with at least one expression in it.

    ``language`` (``en``, ``zh``, ``ja``) is the one in which functions write weekdays. A function
    whose name is in ``taken`` is left out: in the box it is another one.
    """
    rules: dict[str, Rule] = {
        "computed-text": seq(
            'f"',
            RepeatRule(RuleRef("literal-char"), 0, _BEFORE),
            RepeatRule(RuleRef("computed-part"), 1, MAX_EXPRESSIONS),
            '"',
        ),
        "computed-part": seq(
            "{", RuleRef("computed"), "}", RepeatRule(RuleRef("literal-char"), 0, _AFTER)
        ),
        "computed": choice(
            RuleRef("text-call"),
            RuleRef("number-call"),
            RuleRef("whole-sum"),
            seq(RuleRef("decimal-sum"), _DECIMAL_FORMAT),
        ),
        "literal-char": choice(_LITERAL, seq("\\", _ESCAPES)),
        "quoted": seq("'", RepeatRule(_QUOTED, 1, MAX_ARGUMENT), "'"),
        "whole": seq(choice("0", seq(CharacterRange((("1", "9"),)), RepeatRule(_DIGIT, 0, 11)))),
        "fraction": seq(RuleRef("whole"), optional(seq(".", RepeatRule(_DIGIT, 1, 6)))),
        # A power of a power is not possible, so no number has more than 1,200 digits.
        "power": seq("**", optional(" "), CharacterRange((("1", "9"),)), optional(_DIGIT)),
        "signed": seq(optional("-"), RuleRef("decimal-inner")),
        "text-call": choice(*_calls(TEXT_FUNCTIONS, language, taken)),
        "number-call": choice(*_calls(NUMBER_FUNCTIONS, language, taken)),
    }
    return rules | _sums("whole", "whole", "*+-%", "//") | _sums("decimal", "fraction", "*+-%/")


def _sums(kind: str, number: str, signs: str, *more: str) -> dict[str, Rule]:
    """Return the rules of sums and products. Parentheses may contain one more level of them."""
    operator = seq(optional(" "), choice(*signs, *more), optional(" "))
    plain = choice(RuleRef(number), RuleRef("number-call"))
    powered = seq(RuleRef(number), optional(" "), RuleRef("power"))
    inner, outer = RuleRef(f"{kind}-inner"), RuleRef(f"{kind}-operand")
    step = RuleRef(f"{kind}-step")
    return {
        f"{kind}-inner": seq(
            choice(plain, powered),
            RepeatRule(seq(operator, choice(plain, powered)), 0, MAX_OPERATIONS),
        ),
        f"{kind}-operand": choice(plain, powered, seq("(", inner, ")")),
        f"{kind}-step": seq(operator, outer),
        f"{kind}-sum": choice(
            seq(outer, step, RepeatRule(step, 0, MAX_OPERATIONS - 1)),
            powered,
        ),
    }


def _calls(
    functions: Mapping[str, Sequence[str]], language: str, taken: Collection[str]
) -> Iterator[Rule]:
    for name, kinds in functions.items():
        if name in taken:
            continue
        parts: list[Rule | str] = []
        for kind in kinds:
            if kind == LANGUAGE:
                if language != _PLAIN_LANGUAGE:
                    parts += [", " if parts else "", f"'{language}'"]
            elif kind in (NUMBER, TEXT):
                value = RuleRef("signed" if kind == NUMBER else "quoted")
                parts += [", " if parts else "", value]
            else:
                parts.append(RepeatRule(seq(", ", RuleRef("signed")), 0, MAX_OPERATIONS))
        yield seq(f"{name}(", *parts, ")")
