"""The comparison of two commits parses the printed tables and says which figures are worse."""

from bench.compare import compare, read_table
from bench.figure import Figure, table

WAY = Figure.of("message in -> prompt sent", "ms", [2.0, 2.5, 3.0], 1.2, "bare echo", target=5)
RATE = Figure(name="ingest", unit="messages/s", p50=12_345.6, more_is_better=True)
UNITS = {"way": "ms", "ingest": "messages/s"}


def test_a_printed_table_can_be_parsed() -> None:
    printed = f"Python 3.11\n\nbot (3 s)\n{table([WAY, RATE])}\n\n2 figures, 0 short"
    way, rate = read_table(printed)
    assert way == ("message in -> prompt sent", "ms", 2.5, 2.99)
    assert rate == ("ingest", "messages/s", 12_300.0, None)


def test_a_time_is_worse_only_if_every_round_is_slower_than_the_slowest_earlier_round() -> None:
    (slow,) = compare({"way": [2.0, 2.1, 2.2]}, {"way": [2.9, 3.0, 3.1]}, UNITS, 0.1)
    assert slow.worse
    assert (slow.before, slow.now) == (2.1, 3.0)
    (noisy,) = compare({"way": [2.0, 2.1, 3.0]}, {"way": [2.9, 3.0, 3.1]}, UNITS, 0.1)
    assert not noisy.worse
    (within,) = compare({"way": [2.0, 2.1, 2.2]}, {"way": [2.21, 2.22, 2.23]}, UNITS, 0.1)
    assert not within.worse


def test_a_higher_rate_is_better() -> None:
    (less,) = compare({"ingest": [100.0, 101.0]}, {"ingest": [50.0, 51.0]}, UNITS, 0.1)
    assert less.worse
    assert (less.before, less.now) == (100.5, 50.5)
    (more,) = compare({"ingest": [50.0, 51.0]}, {"ingest": [100.0, 101.0]}, UNITS, 0.1)
    assert not more.worse


def test_a_figure_that_only_one_commit_has_is_not_compared() -> None:
    assert list(compare({"way": [2.0]}, {"ingest": [3.0]}, UNITS, 0.1)) == []
