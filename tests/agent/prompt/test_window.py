"""A prompt shows the newest part of a chat's history, the window. The window keeps its beginning
until it is full."""

from hypothesis import given
from hypothesis import strategies as st

from nekro_core.agent.prompt.window import HistoryWindows, Window, window_begin
from nekro_core.chat import ChatKey


def test_the_window_moves_rarely_and_by_many_messages() -> None:
    begin, begins = 0, []
    for newest in range(1, 400):
        seqs = [seq for seq in range(1, newest + 1) if seq >= begin]
        begin = window_begin(seqs, [20] * len(seqs), begin=begin, most_tokens=2000, most=1000)
        begins.append(begin)
    assert begins == sorted(begins)
    jumps = sorted(set(begins))
    assert jumps == [1, 52, 103, 154, 205, 256, 307]
    assert begins[99] == 1, "a hundred messages fit"


def test_after_a_restart_the_window_of_a_long_history_is_half_full() -> None:
    seqs = [*range(1, 401)]
    assert window_begin(seqs, [20] * 400, begin=0, most_tokens=2000, most=1000) == 351
    assert window_begin(seqs[:50], [20] * 50, begin=0, most_tokens=2000, most=1000) == 1


def test_a_window_has_a_maximum_number_of_messages() -> None:
    seqs = [*range(11, 111)]
    assert window_begin(seqs, [1] * 100, begin=11, most_tokens=2000, most=100) == 11
    assert window_begin(seqs, [1] * 100, begin=5, most_tokens=2000, most=100) == 61, (
        "old messages must be cut off"
    )


def test_erased_messages_do_not_leave_the_window_empty() -> None:
    assert window_begin([1, 2, 3], [5, 5, 5], begin=9, most_tokens=100, most=10) == 1
    assert window_begin([], [], begin=9, most_tokens=100, most=10) == 0


@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=60),
    st.integers(0, 70),
    st.integers(1, 4000),
    st.integers(1, 60),
)
def test_a_window_keeps_its_limits_and_always_has_the_newest_message(
    costs: list[int], begin: int, most_tokens: int, most: int
) -> None:
    seqs = [*range(1, len(costs) + 1)]
    found = window_begin(seqs, costs, begin=begin, most_tokens=most_tokens, most=most)
    inside = [cost for seq, cost in zip(seqs, costs, strict=True) if seq >= found]
    assert inside
    assert len(inside) <= most
    assert sum(inside) <= most_tokens or len(inside) == 1


def test_windows_are_remembered_for_each_chat() -> None:
    windows = HistoryWindows()
    one, other = ChatKey.parse("fake-group_1"), ChatKey.parse("fake-group_2")
    windows.note(one, Window(5, 9))
    assert windows.of(one) == Window(5, 9)
    assert windows.of(other) == Window()
    for number in range(5000):
        windows.note(ChatKey.parse(f"fake-group_x{number}"), Window(1, 1))
    assert windows.of(one) == Window(), "the chat that was unused longest is forgotten"
