"""The counts of an account's events are compared with a simple list of times."""

from hypothesis import given
from hypothesis import strategies as st

from nekro_core.delivery.platforms.contract import AccountState
from nekro_core.delivery.platforms.monitor import AccountMonitor, MinuteCounter


@given(st.lists(st.floats(0, 20_000), max_size=200), st.floats(0, 10_000))
def test_events_of_the_last_hour_are_counted_by_whole_minutes(
    gaps: list[float], after: float
) -> None:
    counter, now, times = MinuteCounter(), 1_700_000_000.0, []
    for gap in gaps:
        now += gap
        times.append(now)
        counter.add(now)
    now += after
    counted = counter.count(now)
    minutes = [int(now // 60) - int(each // 60) for each in times]
    assert counted.total == len(times)
    assert counted.last_hour == sum(each < 60 for each in minutes)
    assert minutes.count(0) <= counted.last_minute <= minutes.count(0) + minutes.count(1)


def test_a_clock_that_is_set_back_loses_no_count() -> None:
    counter = MinuteCounter()
    for now in (7200.0, 60.0, 7260.0):
        counter.add(now)
    assert (counter.count(7260.0).total, counter.count(7260.0).last_hour) == (3, 3)


def test_the_state_of_an_account_follows_what_happens() -> None:
    monitor = AccountMonitor("1", clock=lambda: 5.0)
    monitor.offline("nobody answers")
    assert monitor.status().state is AccountState.CONNECTING, (
        "an account that was never online counts as connecting"
    )
    monitor.online("20002")
    assert (monitor.status().state, monitor.status().connected_since) == ("online", 5.0)
    monitor.offline("cut")
    monitor.offline("still cut")
    status = monitor.status()
    assert (status.state, status.last_error, status.connected_since) == (
        AccountState.OFFLINE,
        "still cut",
        None,
    )
