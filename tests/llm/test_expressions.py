"""Expressions in the texts of a small model: Python can compute each expression that the grammar
accepts, and none of them takes long or does more than compute."""

import ast
import contextlib
import time

import pytest

from nekro_core.agent.prompt.small_prompt import small_tools
from nekro_core.llm.expression_rules import NUMBER_FUNCTIONS, TEXT_FUNCTIONS, expression_rules
from nekro_core.llm.gbnf import RuleRef, render
from nekro_core.llm.grammar import call_rules
from nekro_core.plugins.host.builtin import builtin_folder
from nekro_core.tools.examples import script_language
from tests.e2e.embedded_eval import builtin_tools
from tests.llm.grammar_matcher import accepts
from tests.llm.test_grammar import Sampler, a_parameter, a_tool

SEND = a_tool("send", a_parameter("text", {"type": "string"}))
ENGLISH = call_rules([SEND], computes_in="en")


@pytest.mark.parametrize(
    "code",
    [
        'send(f"37 * 43 = {37 * 43}")',
        'send(f"{(18 + 7) * 4}")',
        'send(f"{2**16} and {7 % 3}")',
        'send(f"{17 / 3:.10g}, {0.1 + 0.2:.10g}")',
        'send(f"{240 * 2 / 3 + 1:.10g}, {120 - 0.5 * 8:.10g}, {(18 + 7) / 4:.10g}")',
        "send(f\"{days_until('Christmas')} days\")",
        "send(f\"{days_until('Christmas') // 7} weeks\")",
        "send(f\"It is {weekday('July 20, 1969')}.\")",
        "send(f\"{date_after(-3, 'weeks', 'today')}\")",
        'send("plain words, 5 of them")',
    ],
)
def test_expressions_are_accepted(code: str) -> None:
    assert accepts(ENGLISH, code)
    ast.parse(code)


@pytest.mark.parametrize(
    "code",
    [
        'send(f"37 * 43 = {1591}")',  # computed by the model
        'send(f"nothing to compute")',
        "send(f\"{weekday('Friday') + 1}\")",  # a text in a sum
        'send(f"{17 / 3}")',  # 17 digits
        'send(f"{123456 * 987654:.10g}")',  # would become 1.219318e+11
        'send(f"{9**9**9}")',  # computes for years
        'send(f"{9**999}")',
        "send(f\"{open('/etc/passwd')}\")",
        'send(f"{send}")',
        'send(f"{x + 1}")',
        "send(f\"{count_in('a')}\")",
        "send(f\"{weekday('Friday', 'zh')}\")",  # the language of another prompt
        "send(f\"{letters_in('it's')}\")",
        "send(f\"{letters_in('a}b')}\")",
        "send(f\"{letters_in('a\\\\')}\")",
    ],
)
def test_other_code_is_refused(code: str) -> None:
    assert not accepts(ENGLISH, code)


def test_the_grammar_allows_expressions_only_on_request() -> None:
    assert not accepts(call_rules([SEND]), 'send(f"{1 + 1}")')


def test_only_required_free_texts_have_expressions() -> None:
    tool = a_tool(
        "draw",
        a_parameter("kind", {"type": "string", "enum": ["bar"]}),
        a_parameter("title", {"type": "string"}, default=""),
    )
    rules = call_rules([tool], computes_in="en")
    assert accepts(rules, 'draw("bar", "x")')
    assert not accepts(rules, 'draw("bar", f"{1 + 1}")')


def test_a_function_with_the_name_of_a_tool_is_not_allowed_in_expressions() -> None:
    rules = call_rules([SEND, a_tool("weekday")], computes_in="en")
    assert not accepts(rules, "send(f\"{weekday('Friday')}\")")
    assert accepts(rules, "send(f\"{days_until('Friday')}\")")


@pytest.mark.parametrize("language", ["en", "zh", "ja"])
def test_what_is_accepted_parses_and_computes_quickly(language: str) -> None:
    rules = expression_rules(language)
    render({**rules, "root": RuleRef("computed-text")})
    functions = NUMBER_FUNCTIONS.keys() | TEXT_FUNCTIONS.keys()
    scope = dict.fromkeys(NUMBER_FUNCTIONS, lambda *_: 7) | dict.fromkeys(
        TEXT_FUNCTIONS, lambda *_: "x"
    )
    for seed in range(150):
        text = Sampler(rules, seed).write(RuleRef("computed-text"))
        tree = ast.parse(text, mode="eval")
        assert any(isinstance(node, ast.BinOp | ast.Call) for node in ast.walk(tree)), text
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert names <= functions, text
        began = time.thread_time()
        # The model reads such an error and may write another expression.
        with contextlib.suppress(ZeroDivisionError, ValueError, OverflowError):
            eval(compile(tree, "text", "eval"), {"__builtins__": {}}, scope)
        assert time.thread_time() - began < 1


@pytest.mark.parametrize("language", ["en", "zh", "ja"])
def test_the_model_can_write_every_worked_example_of_the_built_in_plugins(language: str) -> None:
    offered = small_tools(builtin_tools())
    rules = call_rules(offered, computes_in=language)
    taught = [example for each in offered for example in each.tool.examples]
    written = [each.code for each in taught if script_language(each.says) == language]
    assert len(written) > 70
    assert [code for code in written if not accepts(rules, code)] == []


def test_every_worked_example_in_the_files_of_the_built_in_plugins_is_used() -> None:
    offered = small_tools(builtin_tools())
    taught = {example.says for each in offered for example in each.tool.examples}
    files = list(builtin_folder("plugins").glob("*/examples/**/*.txt"))
    assert len(files) > 5
    for file in files:
        lines = file.read_text("utf-8").splitlines()
        said = [line.removeprefix("# User: ") for line in lines if line.startswith("#")]
        assert said
        assert [each for each in said if each not in taught] == [], file
