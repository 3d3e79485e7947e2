"""An empty NiceGUI page, the floor of the console's pages: ``python empty_page.py PORT``."""

import sys

from nicegui import ui


@ui.page("/")
def empty() -> None:
    """Draw only the element for which the benchmark waits."""
    with ui.element("main").classes("nc-main"):
        ui.label("empty")


if __name__ in {"__main__", "__mp_main__"}:
    ui.run(host="127.0.0.1", port=int(sys.argv[1]), reload=False, show=False)
