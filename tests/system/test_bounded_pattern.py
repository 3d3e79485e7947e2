"""Matching a plugin's pattern with a stranger's text ends quickly, or the bot gives it up."""

from dataclasses import dataclass, field

import pytest

from nekro_core.system.bounded_pattern import LIMIT_S, REST_S, BoundedPattern, PatternProblem

WILD = [
    (r"(a+)+$", "a" * 4000 + "!"),
    (r"^(x+x+)+y", "x" * 4000),
    (r"(a|aa)+$", "a" * 4000 + "!"),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 4000),
]


@dataclass
class ManualClock:
    """A clock that a test advances."""

    now: float = 100.0
    told: list[float] = field(default_factory=list)

    def pattern(self, text: str) -> BoundedPattern:
        return BoundedPattern(text, self.told.append, lambda: self.now)


def test_named_groups_are_the_same_as_with_re() -> None:
    pattern = ManualClock().pattern(r"^/hi(?: (?P<name>.+))?$")
    assert pattern.groups("/hi") == {"name": None}
    assert pattern.groups("/hi Ann") == {"name": "Ann"}
    assert pattern.groups("well /hi") is None
    assert ManualClock().pattern("hi").groups("oh hi") == {}
    with pytest.raises(PatternProblem, match="missing"):
        ManualClock().pattern("(")


@pytest.mark.parametrize(("wild", "text"), WILD)
def test_a_slow_pattern_is_given_up_reported_once_and_paused(wild: str, text: str) -> None:
    clock = ManualClock()
    pattern = clock.pattern(wild)
    assert pattern.groups(text) is None
    assert pattern.groups(text) is None
    assert len(clock.told) == 1
    clock.now += REST_S + LIMIT_S
    assert pattern.groups(text) is None
    assert len(clock.told) == 2
