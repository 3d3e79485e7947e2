"""The grammar of calls accepts only valid Python, and its calls fit the tools' signatures."""

import ast
import inspect
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.llm.gbnf import (
    CharacterRange,
    ChoiceRule,
    GrammarError,
    LiteralText,
    RepeatRule,
    Rule,
    RuleRef,
    SequenceRule,
    choice,
    optional,
    render,
    seq,
)
from nekro_core.llm.grammar import MAX_CALLS, call_grammar, call_rules
from nekro_core.tools.names import NamedTool
from nekro_core.tools.tool import REQUIRED, Parameter, Tool, ToolKind
from tests.llm.grammar_matcher import accepts


async def _handler() -> None:
    raise AssertionError("no test calls it")


def a_tool(name: str, *parameters: Parameter) -> NamedTool:
    tool = Tool(
        name=name,
        python_name=name,
        module="plugin",
        owner="test.plugin",
        kind=ToolKind.TOOL,
        handler=_handler,
        parameters=parameters,
    )
    return NamedTool(tool, (name,))


def a_parameter(name: str, schema: dict[str, Any], **options: Any) -> Parameter:
    return Parameter(name=name, annotation=Any, type_text="", schema=schema, **options)


class Sampler:
    """Writes random texts that the grammar accepts, mostly short ones."""

    def __init__(self, rules: dict[str, Rule], seed: int) -> None:
        self.rules = rules
        self.random = random.Random(seed)

    def write(self, rule: Rule) -> str:
        match rule:
            case LiteralText(text):
                return text
            case RuleRef(name):
                return self.write(self.rules[name])
            case ChoiceRule(options):
                return self.write(self.random.choice(options))
            case SequenceRule(parts):
                return "".join(map(self.write, parts))
            case RepeatRule(inner, least, most):
                times = min(most, least + self.random.choice([0, 0, 1, 2, 5]))
                return "".join(self.write(inner) for _ in range(times))
            case CharacterRange(ranges, negated):
                return self.character(ranges, negated)

    def character(self, ranges: tuple[tuple[str, str], ...], negated: bool) -> str:
        if not negated:
            first, last = self.random.choice(ranges)
            return chr(self.random.randint(ord(first), ord(last)))
        while True:
            # These characters include those that could end a literal or a line, or break an
            # encoding.
            usual = "aé好の🎲'#{}%\u0085\u00a0\u200b\u202e\u2028\ufeff\x1c\x0c\t\n\r\"\\"
            found = self.random.choice(usual)
            if not any(first <= found <= last for first, last in ranges):
                return found


scalars = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 2, "maxLength": 5},
        {"type": "integer"},
        {"type": "integer", "minimum": 1},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"enum": ["bar", 'quo"te', "线", None, 3, True]},
        {"const": "one"},
        {},
    ]
)
nested = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.builds(lambda a, b: {"type": "array", "prefixItems": [a, b]}, inner, inner),
        st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
        st.builds(lambda a: {"type": "object", "additionalProperties": a}, inner),
        st.builds(lambda a, b: {"type": "object", "properties": {"x": a, 'y"': b}}, inner, inner),
    ),
    max_leaves=4,
)
# Some schemas have definitions at their top, where pydantic puts them.
schemas = nested | st.builds(
    lambda thing: {"$defs": {"Thing": thing}, "anyOf": [{"$ref": "#/$defs/Thing"}, {"const": 0}]},
    nested,
)


@st.composite
def tools(draw: st.DrawFn) -> NamedTool:
    parameters = []
    optional_now = keyword_only = False
    for number in range(draw(st.integers(0, 5))):
        optional_now = (optional_now and not keyword_only) or draw(st.booleans())
        keyword_only = keyword_only or draw(st.integers(0, 4)) == 0
        default = None if optional_now else REQUIRED
        parameters.append(
            a_parameter(f"p{number}", draw(schemas), default=default, keyword_only=keyword_only)
        )
    return a_tool(draw(st.sampled_from(["send_text", "f", "发送"])), *parameters)


def signature_of(tool: Tool) -> inspect.Signature:
    return inspect.Signature(
        [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY
                if each.keyword_only
                else inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=inspect.Parameter.empty if each.required else each.default,
            )
            for each in tool.parameters
        ]
    )


def fits(value: Any, schema: dict[str, Any], definitions: dict[str, Any]) -> bool:
    if "$ref" in schema:
        return fits(value, definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "const" in schema:
        return value == schema["const"]
    if "enum" in schema:
        return value in schema["enum"]
    if "anyOf" in schema:
        return any(fits(value, each, definitions) for each in schema["anyOf"])
    match schema.get("type"):
        case "string":
            bounds = schema.get("minLength", 1), schema.get("maxLength", 400)
            return isinstance(value, str) and bounds[0] <= len(value) <= bounds[1]
        case "integer":
            return type(value) is int and value >= schema.get("minimum", -(10**10))
        case "number":
            return type(value) in (int, float)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "array":
            if not isinstance(value, list):
                return False
            items = schema.get("prefixItems") or [schema["items"]] * len(value)
            return len(items) == len(value) and all(
                fits(item, each, definitions) for item, each in zip(value, items, strict=True)
            )
        case "object":
            if not isinstance(value, dict):
                return False
            others = schema.get("additionalProperties")
            inner = schema.get("properties") or dict.fromkeys(value, others)
            return inner.keys() == value.keys() and all(
                fits(value[name], each, definitions) for name, each in inner.items()
            )
    return True


@given(st.lists(tools(), min_size=1, max_size=4), st.integers(0, 2**32))
def test_every_text_that_the_grammar_accepts_has_valid_calls_with_the_right_types(
    named: list[NamedTool], seed: int
) -> None:
    named = list({each.name: each for each in named}.values())
    rules = call_rules(named)
    assert render(rules) == call_grammar(named)
    code = Sampler(rules, seed).write(rules["root"])
    by_name = {each.name: each.tool for each in named}
    statements = ast.parse(code).body
    assert 1 <= len(statements) <= MAX_CALLS
    for statement in statements:
        assert isinstance(statement, ast.Expr)
        call = statement.value
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        tool = by_name[call.func.id]
        positional = [ast.literal_eval(each) for each in call.args]
        named_ones = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        bound = signature_of(tool).bind(*positional, **named_ones)
        for parameter in tool.parameters:
            if parameter.name in bound.arguments:
                schema = dict(parameter.schema)
                value = bound.arguments[parameter.name]
                assert fits(value, schema, schema.get("$defs", {})), (value, schema)


def test_the_first_call_can_be_restricted() -> None:
    say, roll = a_tool("say"), a_tool("roll")
    rules = call_rules([say, roll], max_calls=2, first={"roll"})
    assert accepts(rules, "roll()\nsay()")
    assert not accepts(rules, "say()\nroll()")
    assert accepts(call_rules([say, roll], first={"unknown"}), "say()")


def test_a_tool_with_two_schemas_accepts_both() -> None:
    small, large = (a_tool("roll", a_parameter("sides", {"enum": [n]})) for n in (2, 6))
    rules = call_rules([small, large])
    assert accepts(rules, "roll(2)\nroll(6)")
    assert not accepts(rules, "roll(3)")


def test_a_recursive_schema_gives_a_finite_grammar() -> None:
    tree = {
        "$defs": {"Tree": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        "$ref": "#/$defs/Tree",
    }
    assert "root ::=" in call_grammar([a_tool("plant", a_parameter("tree", tree))])


def test_a_grammar_without_tools_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one tool"):
        call_grammar([])


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ({"start": LiteralText("a")}, "'root'"),
        ({"root": RuleRef("other")}, "'other' is used"),
        ({"root": LiteralText("a"), "Bad_Name": LiteralText("b")}, "'Bad_Name'"),
        ({"root": RepeatRule(LiteralText("a"), 0, 5000)}, "0 to 5000"),
    ],
)
def test_an_invalid_grammar_is_refused(rules: dict[str, Rule], complaint: str) -> None:
    with pytest.raises(GrammarError, match=complaint):
        render(rules)


def test_rules_are_rendered_in_the_syntax_of_llama_cpp() -> None:
    rules = {
        "root": seq(
            choice("yes", "no"), optional(" "), RepeatRule(RuleRef("digit"), 1, 3), '"\\\n好'
        ),
        "digit": CharacterRange((("0", "9"),)),
        "other": CharacterRange((('"', '"'), ("\x00", "\x1f")), negated=True),
    }
    assert render(rules) == (
        'root ::= (("yes" | "no") (" ")? (digit){1,3} "\\x22\\x5C\\x0A\\u597D")\n'
        "digit ::= [0-9]\n"
        "other ::= [^\\x22\\x00-\\x1F]\n"
    )
