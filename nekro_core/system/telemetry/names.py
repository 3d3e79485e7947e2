"""Describes all metrics of the bot. docs/monitoring.md has the same table; a test compares both.

No metric has a chat or a person as a label. There are many chats and persons, and the monitoring
system would have to store a time series for each of them. Besides, the names of people do not
belong in a monitoring system.
"""

from nekro_core.system.telemetry.recorders import Metric, MetricKind

_SHORT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the buckets of a histogram, in seconds, for work that usually takes less than a
second."""
_LONG = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of buckets, in seconds, for work that waits for a model."""
_LAG = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Upper bounds of buckets, in seconds, for the lag of the event loop."""


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name=name, kind=MetricKind.COUNTER, text=text, labels=labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name=name, kind=MetricKind.GAUGE, text=text, labels=labels)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name=name, kind=MetricKind.HISTOGRAM, text=text, labels=labels, buckets=buckets)


MESSAGES = _counter(
    "nekro_messages_total",
    "Messages that were stored (`in`) or that a platform took from the bot (`out`).",
    "platform",
    "direction",
)
TURNS = _counter("nekro_turns_total", "Turns that ended, by the reason for their end.", "end")
STEPS = _counter("nekro_steps_total", "Steps of turns: replies of a model that were used.")
TOOL_CALLS = _counter(
    "nekro_tool_calls_total", "Calls of tools by the agent; `result` is `ok` or `failed`.", "result"
)
TOKENS = _counter(
    "nekro_model_tokens_total",
    "Tokens of requests to models; `kind` is `prompt` (without the cached ones), `cached` or "
    "`completion`.",
    "model",
    "kind",
)
MONEY = _counter(
    "nekro_model_money_total",
    "What requests to models cost, in the currency of the prices; `source` says where the price "
    "comes from.",
    "model",
    "source",
)
MODEL_REQUESTS = _counter(
    "nekro_model_requests_total",
    "Requests to models; `result` is `ok`, `cut` (the bot ended it) or why it failed.",
    "model",
    "result",
)
FIRST_WORDS = _histogram(
    "nekro_first_words_seconds",
    "From the beginning of a turn until the platform has taken its first message.",
    _LONG,
)
TURN_SECONDS = _histogram("nekro_turn_seconds", "How long turns took.", _LONG)
MODEL_FIRST_TOKEN = _histogram(
    "nekro_model_first_token_seconds",
    "From a request to a model until the first part of its reply.",
    _LONG,
    "model",
)
MODEL_SECONDS = _histogram(
    "nekro_model_request_seconds", "How long requests to models took.", _LONG, "model"
)
BOX_START = _histogram(
    "nekro_box_start_seconds",
    "How long a chat waited for its box when it had to be started or woken.",
    _SHORT,
)
PLATFORM_CALL = _histogram(
    "nekro_platform_call_seconds",
    "How long platform calls that send a message took, by their outcome.",
    _SHORT,
    "platform",
    "state",
)
LOOP_LAG = _histogram(
    "nekro_event_loop_lag_seconds",
    "How much later than asked the event loop continued a task; measured once a second.",
    _LAG,
)
OUTBOX = _gauge(
    "nekro_outbox_messages",
    "Outgoing messages by state; at most 10,000 of each are counted. Messages that were sent are "
    "in `nekro_messages_total`.",
    "state",
)
BOXES = _gauge(
    "nekro_boxes",
    "Boxes: `idle` ones are ready for a chat, `running` ones belong to a chat, of `asleep` ones "
    "only the files exist.",
    "state",
)
QUEUES = _gauge(
    "nekro_queue_length",
    "What waits: `inbox` (stored records that no session has), `turns` (turns that wait for a "
    "slot), `outbox` (messages of all chats), `database` (writes).",
    "queue",
)
TURNS_RUNNING = _gauge("nekro_turns_running", "Turns that run now.")
ACCOUNTS = _gauge("nekro_accounts", "The bot's accounts by state.", "platform", "state")
ADAPTERS = _gauge(
    "nekro_adapter_up",
    "1 for each adapter that runs, 0 for each that should run and cannot.",
    "platform",
)
MODELS_UP = _gauge(
    "nekro_model_up",
    "For each model that a chain has named: 1 if it is asked, 0 while it cools down after a "
    "failure.",
    "model",
)
ALERTS = _gauge("nekro_alerts", "Alerts that are not over, by kind.", "kind")
READY = _gauge("nekro_ready", "1 if the bot can answer; see `/readyz`.")
SCRAPE = _gauge(
    "nekro_scrape_complete",
    "1 if the values that are read from the database and the disk are here; 0 if these did not "
    "answer in time.",
)
INFO = _gauge("nekro_info", "1; the label has the version of the bot.", "version")

COUNTERS = (MESSAGES, TURNS, STEPS, TOOL_CALLS, MODEL_REQUESTS, TOKENS, MONEY)
HISTOGRAMS = (
    FIRST_WORDS,
    TURN_SECONDS,
    MODEL_FIRST_TOKEN,
    MODEL_SECONDS,
    BOX_START,
    PLATFORM_CALL,
    LOOP_LAG,
)
GAUGES = (
    OUTBOX,
    BOXES,
    QUEUES,
    TURNS_RUNNING,
    ACCOUNTS,
    ADAPTERS,
    MODELS_UP,
    ALERTS,
    READY,
    SCRAPE,
    INFO,
)
METRICS = (*COUNTERS, *HISTOGRAMS, *GAUGES)
"""All metrics that the bot itself records. The metrics of `PROCESS_METRICS` come in addition."""
PROCESS_METRICS = {
    "process_virtual_memory_bytes": "Virtual memory of the main process.",
    "process_resident_memory_bytes": "Memory of the main process.",
    "process_start_time_seconds": "When the main process began, in seconds since 1970.",
    "process_cpu_seconds_total": "Processor time of the main process.",
    "process_open_fds": "Open files and connections of the main process.",
    "process_max_fds": "How many files and connections the main process may open.",
}
"""The metrics that `prometheus_client` measures of a process on Linux, each with its
description."""
