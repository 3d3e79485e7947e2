"""Make a chart from the CSV file at an address, in three stages. Each stage is idle until the stage
before it has a result."""

from dataclasses import dataclass
from typing import Any

from nekro_core.api.reactive import AsyncCell, ExecResult, Readable, computed, exec_, fetch_data

_ANALYSE = """
import collections, csv, json, sys
rows = list(csv.DictReader(open("data.csv", newline="")))
counts = collections.Counter(next(iter(row.values())) for row in rows)
json.dump({"rows": len(rows), "columns": list(rows[0]) if rows else [], "counts": counts},
          open("stats.json", "w"))
sys.exit(0 if rows else 3)
"""

_DRAW = """
import html, json
counts = json.load(open("stats.json"))["counts"]
most = max(counts.values())
bars = "".join(
    f'<rect y="{20 * n}" height="16" width="{200 * count / most:.0f}"/>'
    f'<text x="204" y="{20 * n + 13}">{html.escape(name)}: {count}</text>'
    for n, (name, count) in enumerate(sorted(counts.items()))
)
open("chart.svg", "w").write(f'<svg xmlns="http://www.w3.org/2000/svg">{bars}</svg>')
"""


@dataclass(frozen=True)
class Pipeline:
    """The three stages."""

    csv: AsyncCell[str]
    analysis: AsyncCell[ExecResult]
    chart: AsyncCell[ExecResult]


def pipeline(url: Readable[str]) -> Pipeline:
    """Fetch, analyse and draw, again whenever the address changes."""
    csv = fetch_data(url, mode="text")
    analysis = exec_(
        [["python3", "analyse.py"]],
        files={"data.csv": csv, "analyse.py": _ANALYSE, "stats.json": "json"},
    )

    def stats() -> Any:
        """The numbers to draw; None before there are any and after an error."""
        result = analysis.result
        return result.files["stats.json"] if result and result.ok else None

    chart = exec_(
        [["python3", "draw.py"]],
        files={"stats.json": computed(stats), "draw.py": _DRAW, "chart.svg": "text"},
    )
    return Pipeline(csv, analysis, chart)
