"""The numbers of a question are found, whether it writes them as digits, as words or as Chinese
numerals."""

import pytest

from nekro_core.agent.prompt.question_numbers import numbers_in


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("roll 2d8", [2, 8]),
        ("apples 4, pears 9,plums 2", [2, 4, 9]),
        ("rent 1,200 and 35.5%", [35.5, 1200]),
        ("it was -5, then minus 3", [-5, -3, 3, 5]),
        ("from 2020-21", [21, 2020]),
        ("30k followers", [30, 30_000]),
        ("two twelve-sided dice", [2, 12]),
        ("Twenty-five or three hundred", [3, 5, 20, 25, 300]),
        ("a pair, half of a dozen", [0.5, 2, 12]),
        ("掷三个二十面的骰子", [3, 20]),
        ("一百二十 两 三万五千", [2, 120, 35_000]),
        ("３個、ふたつ", [2, 3]),
        ("零下5度", [-5, 0, 5]),
        ("hello, who are you?", []),
    ],
)
def test_the_numbers_of_a_text_are_found(text: str, numbers: list[float]) -> None:
    assert sorted(numbers_in(text)) == numbers


def test_chinese_digits_in_a_row_are_found_singly_and_as_one_number() -> None:
    assert sorted(numbers_in("房间三〇二")) == [0, 2, 3, 302]


def test_a_very_long_chinese_numeral_is_not_read_as_a_number() -> None:
    assert numbers_in("九" * 5000) == []
