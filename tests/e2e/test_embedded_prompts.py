"""The 60 prompts of the evaluation are valid, and their judge recognizes right and wrong calls."""

from collections import Counter

import pytest

from nekro_core.agent.prompt.small_prompt import small_tools
from nekro_core.tools.examples import all_examples
from tests.e2e.embedded_eval import builtin_tools, judge, read_prompts

PROMPTS = read_prompts("all")
TOOLS = builtin_tools()


def test_half_of_the_prompts_of_each_language_are_held_out() -> None:
    counted = Counter((each.language, each.half) for each in PROMPTS)
    for language, number in (("en", 20), ("zh", 5), ("ja", 5)):
        assert counted[language, "tuning"] == counted[language, "held_out"] == number
    assert len({each.says for each in PROMPTS}) == len(PROMPTS) == 60


def test_no_example_of_a_tool_equals_a_held_out_prompt() -> None:
    taught = {example.says.casefold() for tool in TOOLS.tools for example in all_examples(tool)}
    assert not taught & {each.says.casefold() for each in PROMPTS if each.half == "held_out"}


def test_each_expected_argument_belongs_to_an_offered_tool() -> None:
    offered = {each.name: {one.name for one in each.tool.parameters} for each in small_tools(TOOLS)}
    for prompt in PROMPTS:
        for tool in prompt.tools:
            assert prompt.arguments.keys() <= offered[tool], prompt


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("roll_dice(sides=20)", (True, True)),
        ("roll_dice(20, 1)", (True, True)),
        ("roll_dice(sides=6)", (True, False)),
        ('send_channel_message("20")', (False, False)),
        ('send_channel_message("20', (False, False)),
        ('send_channel_message("Here:")\nroll_dice(sides=20)', (True, True)),
    ],
)
def test_the_judge_recognizes_right_and_wrong_calls(code: str, verdict: tuple[bool, bool]) -> None:
    (prompt,) = (each for each in PROMPTS if each.says == "roll a 20-sided dice")
    assert judge(TOOLS, prompt, code) == verdict
