"""Draws how a plugin was used, and what it cost."""

import time

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.widgets import local_time
from nekro_core.operator.plugin_views import PluginUseView
from nekro_core.system.errors import NekroError

_READ_AGAIN_S = 3.0
_DAY_S = 86_400.0
_SPANS = (1, 7, 30, 0)
"""The spans that can be chosen for the requests to models, in days; 0 for all time."""


async def draw_use(view: View, item: str) -> None:
    """Draw the use of a plugin. The numbers are updated while the page is open."""
    spans = {days: view.say(f"plugins.since_{days}") for days in _SPANS}
    span = ui.select(spans, value=30, label=view.say("plugins.since"))
    span.props("outlined dense").classes("nc-plugin-span")
    last: list[PluginUseView] = []

    async def read() -> PluginUseView:
        since = time.time() - span.value * _DAY_S if span.value else 0.0
        return await view.operator.plugins.use(view.actor, plugin=item, since=since)

    @ui.refreshable
    async def show() -> None:
        try:
            use = await read()
        except NekroError as error:
            ui.label(str(error)).classes("nc-bad nc-text")
            return
        last[:] = [use]
        _draw(view, use)

    async def look() -> None:
        try:
            found = await read()
        except NekroError:
            return
        if [found] != last:
            await show.refresh()

    span.on_value_change(show.refresh)
    await show()
    ui.timer(_READ_AGAIN_S, look, immediate=False)


def _draw(view: View, use: PluginUseView) -> None:
    tokens = f"{use.prompt_tokens:,} + {use.completion_tokens:,}"
    with ui.element("div").classes("nc-tiles"):
        for key, value in (
            ("calls", f"{sum(each.calls for each in use.tools):,}"),
            ("errors", f"{use.errors:,}"),
            ("model_requests", f"{use.model_requests:,}"),
            ("tokens", tokens),
            ("cost", f"{use.cost:.4f}"),
        ):
            with ui.element("div").classes("nc-card"):
                ui.label(view.say(f"plugins.{key}")).classes("nc-soft nc-small")
                ui.label(value).classes("nc-tile-value")
    ui.label(view.say("plugins.use_lead")).classes("nc-soft nc-small")
    if not use.tools:
        return
    columns = [
        {"name": name, "label": view.say(f"plugins.column_{name}"), "field": name, "align": align}
        for name, align in (
            ("tool", "left"),
            ("calls", "right"),
            ("errors", "right"),
            ("seconds", "right"),
            ("last_error", "left"),
        )
    ]
    rows = [
        {
            "tool": each.name,
            "calls": each.calls,
            "errors": each.errors,
            "seconds": f"{each.seconds / max(1, each.calls):.2f}",
            "last_error": ""
            if each.last_error is None
            else f"{local_time(each.last_error.at)} {each.last_error.text} {each.last_error.where}",
        }
        for each in sorted(use.tools, key=lambda each: -each.calls)
    ]
    ui.table(rows=rows, columns=columns, row_key="tool").classes("nc-table").props(
        "flat wrap-cells"
    )
