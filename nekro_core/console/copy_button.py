"""Draws buttons that copy a text."""

import json

from nicegui import ui
from nicegui.events import GenericEventArguments

from nekro_core.console.view import View


def copy_button(view: View, text: str, name: str) -> ui.button:
    """Draw a button that copies a text, and tells whether it was copied. Copying happens in the
    browser, because browsers allow it only while a click is handled.

    Args:
        view: The opened page.
        text: The text that is copied.
        name: What the text is, for screen readers.

    Returns:
        The button.
    """

    def told(event: GenericEventArguments) -> None:
        copied = event.args is True
        view.tell(view.say("copy.copied" if copied else "copy.failed"), bad=not copied)

    button = ui.button(icon="content_copy").props("flat dense round")
    button.props["aria-label"] = view.say("copy.copy", what=name)
    # A JSON text is a JavaScript expression.
    button.on("click", told, js_handler=f"async () => emit(await copyText({json.dumps(text)}))")
    return button
