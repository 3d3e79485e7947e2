"""Serves an empty NiceGUI page: ``python empty_page.py PORT``. The time to open it is the baseline
for the console's pages."""

import sys

from nicegui import ui


@ui.page("/")
def empty() -> None:
    """Draw only the element for which the benchmark waits."""
    with ui.element("main").classes("nc-main"):
        ui.label("empty")


if __name__ in {"__main__", "__mp_main__"}:
    ui.run(host="127.0.0.1", port=int(sys.argv[1]), reload=False, show=False)
