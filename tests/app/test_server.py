"""While a bot runs, it changes a setting of its process. At its end, it sets the old value
again."""

import sys

import pytest

from nekro_core.app.server import SWITCH_S, short_switch_interval


def test_the_thread_switch_interval_is_short_while_a_bot_runs() -> None:
    before = sys.getswitchinterval()
    with short_switch_interval():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    assert sys.getswitchinterval() == pytest.approx(before)
    assert before > SWITCH_S
