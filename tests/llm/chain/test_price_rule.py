"""A model of a chain is never replaced by a more expensive one unless the operator allows it."""

import pytest

from nekro_core.llm.model import Price, PriceSource
from nekro_core.llm.price_rule import PriceRule, blended

FREE = Price(source=PriceSource.FREE)
UNKNOWN = Price()


def mine(prompt: float, completion: float) -> Price:
    return Price(prompt=prompt, completion=completion, source=PriceSource.OPERATOR)


def listed(prompt: float, completion: float) -> Price:
    return Price(prompt=prompt, completion=completion, source=PriceSource.PUBLISHED)


def test_the_blended_price_is_three_parts_prompt_and_one_part_completion() -> None:
    assert blended(mine(1.0, 5.0)) == 2.0
    assert blended(FREE) == 0.0
    assert blended(UNKNOWN) is None


@pytest.mark.parametrize(
    ("first", "later", "allowed"),
    [
        (mine(1, 5), mine(1, 5), True),
        (mine(1, 5), mine(2, 1), True),
        (mine(1, 5), mine(2, 5), False),
        (mine(1, 5), FREE, True),
        (FREE, mine(0.1, 0.1), False),
        (FREE, FREE, True),
        (UNKNOWN, UNKNOWN, True),
        (mine(1, 5), UNKNOWN, False),
        (UNKNOWN, mine(0.1, 0.1), False),
        (mine(100, 500), listed(1, 5), False),
        (listed(3, 15), listed(1, 5), True),
    ],
)
def test_a_later_model_may_not_be_more_expensive_than_the_first(
    first: Price, later: Price, allowed: bool
) -> None:
    assert bool(PriceRule().objection(later, first)) is not allowed
    assert PriceRule(allow_dearer=True).objection(later, first) == ""


def test_a_largest_price_allows_models_up_to_this_price_and_forbids_all_others() -> None:
    rule = PriceRule(max_price=2.0)
    assert rule.objection(mine(1, 5), mine(0.1, 0.1)) == ""
    assert "max_price is 2" in rule.objection(mine(1, 6), mine(0.1, 0.1))
    assert "max_price is 2" in rule.objection(mine(9, 9), mine(9, 9)), (
        "the largest price also holds for the first model"
    )
    assert "not known" in rule.objection(UNKNOWN, mine(1, 5))
    assert PriceRule(max_price=2.0, allow_dearer=True).objection(UNKNOWN, mine(1, 5)) == ""
