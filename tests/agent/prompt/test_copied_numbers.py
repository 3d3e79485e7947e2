"""If the examples of a function take their numbers from the question, the model's calls of the
function can have only numbers that the person wrote, and those that examples use in addition."""

from dataclasses import replace

from nekro_core.agent.prompt.copied_numbers import copied_numbers
from nekro_core.agent.prompt.question_numbers import numbers_in
from nekro_core.agent.prompt.small_prompt import small_tools
from nekro_core.llm.grammar import call_rules
from nekro_core.tools.names import NamedTool
from tests.e2e.embedded_eval import builtin_tools
from tests.llm.grammar_matcher import accepts

OFFERED = {each.name: each for each in small_tools(builtin_tools())}


LEARNED = {name: copied_numbers(each) for name, each in OFFERED.items()}


def can_write(question: str, code: str) -> bool:
    """Return whether the grammar, made for the question, lets the model write this call."""
    copied = LEARNED[code.partition("(")[0]]
    fitting = list(copied.allowed(numbers_in(question)))
    return bool(fitting) and accepts(call_rules(fitting), code)


def chart(labels: str, values: str) -> str:
    return f'draw_chart(kind="bar", labels=[{labels}], values=[{values}])'


def test_the_values_of_a_chart_are_those_of_the_question() -> None:
    question = "a bar chart of cats 6, dogs 4.5, birds 2"
    assert can_write(question, chart('"cats", "dogs", "birds"', "6, 4.5, 2"))
    assert not can_write(question, chart('"cats", "dogs", "birds"', "6, 4.5, 3"))


def test_a_chart_has_as_many_labels_as_values() -> None:
    question = "用饼图展示猫6狗4鸟2"
    assert can_write(question, chart('"猫", "狗", "鸟"', "6, 4, 2"))
    assert not can_write(question, chart('"猫", "狗", "鸟", "2"', "6, 4, 2"))
    assert not can_write(question, chart('"猫", "狗", "鸟"', "6, 4"))


def test_labels_may_be_numbers_too() -> None:
    question = "our members: 2022 had 31, 2023 had 44, 2024 had 58"
    assert can_write(question, chart('"2022", "2023", "2024"', "31, 44, 58"))


def test_a_question_without_numbers_allows_no_chart() -> None:
    assert not can_write("make a sign: mind the step", chart('"step"', "1"))


def test_dice_have_the_sides_of_the_question_or_usual_ones() -> None:
    assert can_write("roll two dice", "roll_dice(sides=6, count=2)")
    assert not can_write("roll two dice", "roll_dice(sides=8, count=2)")
    assert can_write("コインを3枚投げて", "roll_dice(sides=2, count=3)")
    assert can_write("an eight-sided die", "roll_dice(sides=8, count=1)")
    assert not can_write("an eight-sided die", "roll_dice(sides=8, count=4)")


def test_if_a_question_has_many_numbers_a_chart_may_have_many_values() -> None:
    question = ", ".join(f"day {day} {day * 10}" for day in range(1, 16))
    values = ", ".join(str(day * 10) for day in range(1, 16))
    labels = ", ".join(f'"day {day}"' for day in range(1, 16))
    assert can_write(question, chart(labels, values))
    assert not can_write(question, chart(labels, values.replace("150", "151")))


def test_a_function_with_few_examples_may_have_any_numbers() -> None:
    dice = OFFERED["roll_dice"]
    few = NamedTool(replace(dice.tool, examples=dice.tool.examples[:3]), dice.names)
    assert list(copied_numbers(few).allowed([])) == [few]


def test_every_worked_example_can_be_written_for_its_own_question() -> None:
    restricted = [OFFERED[name] for name, each in LEARNED.items() if each.unasked]
    assert {each.name for each in restricted} >= {"roll_dice", "draw_chart", "quote_messages"}
    taught = [example for each in restricted for example in each.tool.examples]
    assert [each for each in taught if not can_write(each.says, each.code)] == []
