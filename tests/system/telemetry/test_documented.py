"""The page about monitoring and the dashboard name the metrics that exist."""

import json
import re
from pathlib import Path
from typing import Any

from nekro_core.system.telemetry.names import METRICS, PROCESS_METRICS
from nekro_core.system.telemetry.recorders import MetricKind

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "monitoring.md"
DASHBOARD = ROOT / "docs" / "grafana.json"
_NAME = re.compile(r"\b(?:nekro|process)_[a-z_]+\b")
_LABEL = re.compile(r"(?:by \(([^)]*)\))|\{([^}]*)\}")


def table() -> str:
    """Return the table of all metrics as the page about monitoring must show it."""
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for each in METRICS:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        rows.append(f"| `{each.name}` | {each.kind} | {labels} | {each.text} |")
    rows += [f"| `{name}` | process |  | {text} |" for name, text in PROCESS_METRICS.items()]
    return "\n".join(rows)


def queries() -> list[str]:
    """Return all queries of the dashboard."""
    found: list[str] = []
    waiting: list[Any] = [json.loads(DASHBOARD.read_text("utf-8"))]
    while waiting:
        match waiting.pop():
            case dict() as fields:
                found += [fields["expr"]] if "expr" in fields else []
                waiting += fields.values()
            case list() as items:
                waiting += items
    return found


def readable() -> dict[str, set[str]]:
    """Return the names of all series that a query can read, with the labels of each. A histogram
    has three series."""
    names: dict[str, set[str]] = {name: set() for name in PROCESS_METRICS}
    for each in METRICS:
        if each.kind is MetricKind.HISTOGRAM:
            names[f"{each.name}_bucket"] = {*each.labels, "le"}
            names[f"{each.name}_sum"] = names[f"{each.name}_count"] = {*each.labels}
        else:
            names[each.name] = {*each.labels}
    return names


def test_the_page_has_the_table_of_all_metrics() -> None:
    assert table() in PAGE.read_text("utf-8"), f"docs/monitoring.md needs this table:\n{table()}"


def test_no_two_metrics_share_a_name_and_all_follow_the_rules_of_prometheus() -> None:
    assert len({each.name for each in METRICS}) == len(METRICS)
    for each in METRICS:
        assert re.fullmatch(r"nekro_[a-z_]+", each.name)
        assert each.name.endswith("_total") == (each.kind is MetricKind.COUNTER), each.name
        assert bool(each.buckets) == (each.kind is MetricKind.HISTOGRAM), each.name
        assert list(each.buckets) == sorted(set(each.buckets)), each.name


def test_no_label_is_a_chat_or_a_person() -> None:
    labels = {label for each in METRICS for label in each.labels}
    assert labels == {
        "platform", "direction", "end", "result", "model", "kind", "source", "state", "queue",
        "version",
    }  # fmt: skip


def test_the_dashboard_reads_only_metrics_and_labels_that_exist() -> None:
    names, read = readable(), queries()
    assert len(read) > 15
    for query in read:
        found = _NAME.findall(query)
        assert found, query
        labels: set[str] = set()
        for name in found:
            assert name in names, f"{name} in {query}"
            labels |= names[name]
        for grouped, matched in _LABEL.findall(query):
            for label in re.split(r",\s*", grouped or matched):
                wanted = re.split(r"[!=~]", label.strip())[0]
                assert not wanted or wanted in labels | {"instance", "job"}, f"{wanted} in {query}"


def test_the_dashboard_shows_every_metric_of_the_bot() -> None:
    shown = " ".join(queries())
    assert [each.name for each in METRICS if each.name not in shown] == []
