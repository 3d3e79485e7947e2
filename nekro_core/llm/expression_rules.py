"""The rules of expressions in the texts that a small model writes: ``f"{37 * 43} apples"``.

A model of half a billion parameters cannot compute, but it can copy numbers and words from a
question into an expression, which Python then computes. The rules allow arithmetic and the
functions that are builtins of its runs (`nekro_core/sandbox/guest/guest_calculations.py`). A pair
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
"""The functions whose result is a text. They cannot be a part of a sum."""

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
    whose name is in ``taken`` is left out, because in the box this name is a tool of the chat.
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
    return rules | _whole_sums() | _decimal_sums()


def _step(signs: str, operand: Rule, *more: str) -> Rule:
    return seq(optional(" "), choice(*signs, *more), optional(" "), operand)


def _whole_sums() -> dict[str, Rule]:
    """Return the rules of sums whose result is a whole number. A sum has at least one operation;
    an inner one, in parentheses, may have none."""
    powered = seq(RuleRef("whole"), optional(" "), RuleRef("power"))
    plain = choice(RuleRef("whole"), RuleRef("number-call"), powered)
    step = RuleRef("whole-step")
    return {
        "whole-inner": seq(plain, RepeatRule(_step("*+-%", plain, "//"), 0, MAX_OPERATIONS)),
        "whole-operand": choice(plain, seq("(", RuleRef("whole-inner"), ")")),
        "whole-step": _step("*+-%", RuleRef("whole-operand"), "//"),
        "whole-sum": choice(
            seq(RuleRef("whole-operand"), step, RepeatRule(step, 0, MAX_OPERATIONS - 1)), powered
        ),
    }


def _decimal_sums() -> dict[str, Rule]:
    """Return the rules of sums with a division or a fraction in them, at any place."""
    number = seq(RuleRef("fraction"), optional(seq(optional(" "), RuleRef("power"))))
    plain = choice(number, RuleRef("number-call"))
    pointed = seq(RuleRef("whole"), ".", RepeatRule(_DIGIT, 1, 6), optional(RuleRef("power")))
    inner = seq("(", RuleRef("decimal-inner"), ")")
    any_step, decimal_step = RuleRef("decimal-any"), RuleRef("decimal-step")
    more = RepeatRule(any_step, 0, MAX_OPERATIONS - 1)
    return {
        "decimal-inner": seq(plain, RepeatRule(_step("*+-%/", plain), 0, MAX_OPERATIONS)),
        "decimal-operand": choice(plain, inner),
        "decimal-any": _step("*+-%/", RuleRef("decimal-operand")),
        "decimal-step": choice(
            _step("/", RuleRef("decimal-operand")), _step("*+-%", choice(pointed, inner))
        ),
        "decimal-sum": choice(
            seq(choice(pointed, inner), any_step, more),
            seq(
                RuleRef("whole-operand"),
                RepeatRule(RuleRef("whole-step"), 0, MAX_OPERATIONS),
                decimal_step,
                more,
            ),
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
