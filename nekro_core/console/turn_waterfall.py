"""Draws the times of a turn: a chart with a bar for each span, and a table of the spans."""

from collections.abc import Sequence

from nicegui import ui

from nekro_core.console.turn_parts import duration
from nekro_core.console.view import View
from nekro_core.console.widgets import local_time
from nekro_core.store.turn_trace import TraceSpan

MAX_BARS = 200
"""Maximum number of bars. The table has all spans."""
_SHORTEST = 0.4
"""Minimum length of a bar, in percent of the width, so that it can be seen."""
_LABEL = 80


def draw_waterfall(view: View, spans: Sequence[TraceSpan]) -> None:
    """Draw the bars and the table below them. A span without an end is drawn up to the last known
    time."""
    if not spans:
        ui.label(view.say("turns.no_times")).classes("nc-soft")
        return
    begin = min(each.begin for each in spans)
    end = max(each.end or each.begin for each in spans)
    whole = max(end - begin, 0.001)
    # Screen readers skip the bars; they read the table.
    with ui.element("div").classes("nc-card nc-turn-bars").props('aria-hidden="true"'):
        for span in spans[:MAX_BARS]:
            _draw_bar(view, span, begin, end, whole)
    if len(spans) > MAX_BARS:
        ui.label(view.say("turns.more_bars", count=len(spans) - MAX_BARS)).classes("nc-soft")
    with ui.expansion(view.say("turns.as_table"), icon="table_rows").classes("nc-small"):
        _draw_table(view, spans, begin)


def _draw_bar(view: View, span: TraceSpan, begin: float, end: float, whole: float) -> None:
    until = end if span.end is None else span.end
    left = min(100 - _SHORTEST, (span.begin - begin) / whole * 100)
    width = min(100 - left, max(_SHORTEST, (until - span.begin) / whole * 100))
    title = _title(view, span)
    length = duration(until - span.begin) if span.end is not None else view.say("turns.no_end")
    with ui.element("div").classes("nc-turn-bar-row"):
        with ui.element("div").classes(f"nc-turn-bar-name nc-turn-in-{_depth(span)}"):
            ui.label(title)
        with ui.element("div").classes("nc-turn-track"):
            bar = ui.element("div").classes(f"nc-turn-bar nc-turn-bar-{span.kind}")
            bar.style(f"left: {left:.2f}%; width: {width:.2f}%")
            if span.failed:
                bar.classes("nc-turn-bar-failed")
        ui.label(length).classes("nc-turn-bar-length nc-soft nc-small")
        at = f"{_exact(span.begin)} – {_exact(span.end) if span.end is not None else '…'}"
        with ui.tooltip().classes("nc-turn-tip"):
            ui.label(title)
            ui.label(f"{at} · +{duration(span.begin - begin)} · {length}")
            if span.detail:
                ui.label(span.detail[:600]).classes("nc-text")


def _draw_table(view: View, spans: Sequence[TraceSpan], begin: float) -> None:
    names = ("what", "step", "at", "after", "length", "detail")
    columns = [
        {"name": each, "field": each, "label": view.say(f"turns.column_{each}"), "align": "left"}
        for each in names
    ]
    rows = [
        {
            "id": number,
            "what": _title(view, span),
            "step": "" if span.step < 0 else span.step + 1,
            "at": _exact(span.begin),
            "after": duration(span.begin - begin),
            "length": duration(span.end - span.begin) if span.end is not None else "…",
            "detail": span.detail[:200],
        }
        for number, span in enumerate(spans)
    ]
    ui.table(columns=columns, rows=rows, row_key="id").props("dense flat").classes("nc-table")


def _title(view: View, span: TraceSpan) -> str:
    """Return the title of a span. The title of a message or a statement of code has its text. The
    title of a span of kind ``person`` or ``run`` is only the name of its kind, because its label is
    a code that people cannot read."""
    if span.kind in ("person", "run"):
        return view.say(f"turns.span_{span.kind}")
    by_text = span.kind in ("send", "statement")
    known = (span.detail if by_text else span.label) or span.label
    kind = view.say(f"turns.span_{span.kind}")
    return f"{kind} · {known[:_LABEL]}" if known else kind


def _exact(seconds: float) -> str:
    return f"{local_time(seconds, date=False)}.{int(seconds * 1000) % 1000:03d}"


def _depth(span: TraceSpan) -> int:
    if span.kind in ("person", "slot", "step"):
        return 0
    return 2 if span.kind in ("statement", "call", "send") else 1
