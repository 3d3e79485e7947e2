"""Draws the page about the running version."""

import re

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.widgets import heading, local_time

_LINK_TO_FILE = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)]*\)")
"""Finds Markdown links that lead to a file of the source code and not to a web address."""


async def about_page(view: View) -> None:
    """Draw the page."""
    about = await view.operator.about.bot(view.actor)
    with ui.element("div").classes("nc-tiles"):
        for key, value in (
            ("about.version", about.version),
            ("about.python", about.python),
            ("about.system", about.system),
            ("about.started", local_time(about.started)),
        ):
            with ui.element("div").classes("nc-card"):
                ui.label(view.say(key)).classes("nc-soft nc-small")
                ui.label(value).classes("nc-tile-text")
    heading(view.say("about.changes"))
    if about.changes:
        with ui.element("div").classes("nc-card nc-prose").props('tabindex="0"'):
            # Remove links to files, because the site does not serve files of the source code.
            ui.markdown(_LINK_TO_FILE.sub(r"\1", about.changes))
    else:
        ui.label(view.say("about.no_changes")).classes("nc-soft")
    heading(view.say("about.packages"))
    columns = [
        {"name": each, "label": view.say(f"about.{each}"), "field": each, "align": "left"}
        for each in ("name", "version", "licence")
    ]
    rows = [
        {"name": each.name, "version": each.version, "licence": each.licence}
        for each in about.packages
    ]
    ui.table(columns=columns, rows=rows, row_key="name", pagination=20).classes("nc-table")
