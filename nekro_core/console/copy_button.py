"""Draws buttons that copy a text."""

import json

from nicegui import ui
from nicegui.events import GenericEventArguments

from nekro_core.console.view import View


def copy_button(view: View, text: str, name: str, *, labelled: bool = False) -> ui.button:
    """Draw a button that copies a text and says whether it was copied. A script in the browser
    copies, because browsers allow copying only while they handle a click.

    Args:
        view: The opened page.
        text: The text that is copied.
        name: What the text is. Screen readers read this if the button has no word.
        labelled: Whether the button has a word beside its icon.

    Returns:
        The button.
    """

    def told(event: GenericEventArguments) -> None:
        copied = event.args is True
        view.tell(view.say("copy.copied" if copied else "copy.failed"), bad=not copied)

    label = view.say("copy.label") if labelled else ""
    button = ui.button(label, icon="content_copy")
    button.props("outline no-caps" if labelled else "flat dense round")
    if not labelled:
        button.props["aria-label"] = view.say("copy.copy", what=name)
    # JSON is also valid as a JavaScript expression.
    button.on("click", told, js_handler=f"async () => emit(await copyText({json.dumps(text)}))")
    return button
