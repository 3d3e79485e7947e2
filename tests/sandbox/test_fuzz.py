"""A moment of what ``make attack`` does for long."""

import pytest
from hypothesis import given, settings

from tests.sandbox.attacks.fuzz import EXAMPLES, TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    settings(max_examples=300, deadline=None)(given(EXAMPLES[name])(TARGETS[name]))()
