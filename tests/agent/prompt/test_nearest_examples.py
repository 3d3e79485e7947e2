"""`NearestExamples` finds the examples that are similar to a question, and the functions that the
answer to the question may need."""

from pathlib import Path

import pytest

from nekro_core.agent.prompt.likely_functions import function_scores
from nekro_core.agent.prompt.nearest_examples import NearestExamples
from nekro_core.agent.prompt.small_prompt import NEAREST_EXAMPLES, small_tools
from nekro_core.tools.examples import worked_examples
from tests.e2e.embedded_eval import Prompt, builtin_tools, read_prompts

DEVELOPMENT = Path("tests/e2e/embedded_development.toml")
TAUGHT = [example for each in small_tools(builtin_tools()) for example in each.tool.examples]
BUILT_IN = {
    language: NearestExamples([each for each in TAUGHT if each.language == language])
    for language in ("en", "zh", "ja")
}
PROMPTS = [*read_prompts("tuning"), *read_prompts("all", DEVELOPMENT)]


def function_of(code: str) -> str:
    return code.partition("(")[0]


def tools_of(prompt: Prompt) -> list[str]:
    return prompt.tools or ["send_channel_message"]


def test_the_likely_functions_contain_the_right_one_in_the_development_prompts() -> None:
    found = [(each, BUILT_IN[each.language].of(each.says, NEAREST_EXAMPLES)) for each in PROMPTS]
    sure = [(prompt, nearest.functions) for prompt, nearest in found if nearest.functions]
    assert len(sure) > 0.85 * len(PROMPTS)
    wrong = [prompt.says for prompt, likely in sure if likely.isdisjoint(tools_of(prompt))]
    assert wrong == []
    assert sum(len(likely) for _, likely in sure) < 1.5 * len(sure), "the others are excluded"


def test_the_last_example_is_of_the_right_function_in_the_development_prompts() -> None:
    last = [
        function_of(BUILT_IN[each.language].of(each.says, NEAREST_EXAMPLES).examples[-1].code)
        in tools_of(each)
        for each in PROMPTS
    ]
    assert last.count(False) <= 4


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("hey, do you know the capital of Norway? we argue about it", "Oslo"),
        ("ペルーの首都ってどこだっけ", "リマ"),
        ("请问埃及的首都是哪里呀", "开罗"),
        ('translate "good luck" into German please', "Viel Glück"),
        ("how do you say thank you very much in Italian", "Grazie mille"),
        ("「おやすみ」をドイツ語で言うと何ですか", "Gute Nacht"),
        ("“生日快乐”用英语怎么说呀", "happy birthday"),
    ],
)
def test_a_fact_that_was_asked_for_is_in_the_last_example(question: str, fact: str) -> None:
    language = next(each.language for each in worked_examples(f"# User: {question}\nf()"))
    found = BUILT_IN[language].of(question, NEAREST_EXAMPLES)
    assert fact in found.examples[-1].code


def test_a_question_unlike_all_examples_can_be_about_any_function() -> None:
    found = BUILT_IN["en"].of("xylophone zebra", NEAREST_EXAMPLES)
    assert not found.examples
    assert not found.functions


def test_a_function_with_a_single_example_is_neither_preferred_nor_excluded() -> None:
    examples = {"talk": 4, "clock": 1}
    scores = function_scores(examples, [{"talk": 4, "clock": 1}, {"talk": 4}])
    assert scores["talk"] > scores["clock"], "tell me about ..."
    scores = function_scores(examples, [{"clock": 1}])
    assert scores["clock"] > scores["talk"], "... the time"
    assert set(function_scores(examples, []).values()) == {0.0}
