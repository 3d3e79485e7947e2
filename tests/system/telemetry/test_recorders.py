"""Counters and histograms record cheaply, and their number of series is bounded."""

from prometheus_client.parser import text_string_to_metric_families

from nekro_core.system.telemetry import names
from nekro_core.system.telemetry.exposition import Exposition
from nekro_core.system.telemetry.metrics import BotMetrics
from nekro_core.system.telemetry.recorders import MOST_SERIES, OTHER, Counter, Histogram


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def read(metrics: BotMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the numbers that Prometheus reads, by the name and the labels of the series."""
    text = Exposition(metrics).text({names.QUEUES: {("inbox",): 3.0}}).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_what_was_recorded() -> None:
    metrics = BotMetrics()
    metrics.messages.add("telegram", "in")
    metrics.messages.add("telegram", "in")
    metrics.messages.add("matrix", "out")
    metrics.box_start.observe(0.3)
    metrics.box_start.observe(0.25)
    metrics.box_start.observe(99.0)
    found = read(metrics)
    assert found["nekro_messages_total", (("direction", "in"), ("platform", "telegram"))] == 2
    assert found["nekro_messages_total", (("direction", "out"), ("platform", "matrix"))] == 1
    assert found["nekro_box_start_seconds_bucket", (("le", "0.1"),)] == 0
    assert found["nekro_box_start_seconds_bucket", (("le", "0.25"),)] == 1
    assert found["nekro_box_start_seconds_bucket", (("le", "30.0"),)] == 2
    assert found["nekro_box_start_seconds_bucket", (("le", "+Inf"),)] == 3
    assert found["nekro_box_start_seconds_count", ()] == 3
    assert found["nekro_box_start_seconds_sum", ()] == 99.55
    assert found["nekro_queue_length", (("queue", "inbox"),)] == 3
    assert found["process_resident_memory_bytes", ()] > 1_000_000


def test_a_metric_without_labels_is_there_before_its_first_value() -> None:
    found = read(BotMetrics())
    assert found["nekro_steps_total", ()] == 0
    assert found["nekro_turn_seconds_count", ()] == 0


def test_two_bots_in_one_process_have_separate_numbers() -> None:
    one, other = BotMetrics(), BotMetrics()
    one.steps.add()
    assert read(one)["nekro_steps_total", ()] == 1
    assert read(other)["nekro_steps_total", ()] == 0


def test_a_label_with_endless_values_does_not_make_endless_series() -> None:
    counter, histogram = Counter(names.TURNS), Histogram(names.MODEL_SECONDS)
    for number in range(MOST_SERIES + 50):
        counter.add(f"end {number}")
        histogram.observe(1.0, f"model {number}")
    assert len(counter.values) == len(histogram.values) == MOST_SERIES + 1
    assert counter.values[(OTHER,)] == 50
    assert sum(histogram.values[(OTHER,)].counts) == 50
    counter.add("x" * 1000)
    assert max(len(label) for labels in counter.values for label in labels) <= 64


def test_a_long_label_keeps_its_series_when_no_new_series_are_made_any_more() -> None:
    counter = Counter(names.TURNS)
    counter.add("x" * 100)
    for number in range(MOST_SERIES):
        counter.add(f"end {number}")
    counter.add("x" * 100)
    assert counter.values[("x" * 64,)] == 2


def test_only_the_first_message_of_a_turn_counts_as_first_words() -> None:
    clock = Clock()
    metrics = BotMetrics(clock)
    metrics.turn_began("chat")
    clock.now += 2.5
    metrics.words_sent("chat")
    clock.now += 1.0
    metrics.words_sent("chat")
    metrics.words_sent("a chat without a turn")
    metrics.turn_ended("chat", "finished")
    metrics.turn_left("chat")
    found = read(metrics)
    assert found["nekro_first_words_seconds_count", ()] == 1
    assert found["nekro_first_words_seconds_sum", ()] == 2.5
    assert found["nekro_turn_seconds_sum", ()] == 3.5
    assert found["nekro_turns_total", (("end", "finished"),)] == 1


def test_a_turn_that_was_left_and_begun_again_counts_once() -> None:
    clock = Clock()
    metrics = BotMetrics(clock)
    metrics.turn_began("chat")
    clock.now += 50
    metrics.turn_left("chat")
    metrics.turn_began("chat")
    clock.now += 1
    metrics.turn_ended("chat", "finished")
    found = read(metrics)
    assert found["nekro_turn_seconds_count", ()] == 1
    assert found["nekro_turn_seconds_sum", ()] == 1
