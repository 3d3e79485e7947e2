"""Draws buttons that upload a file."""

from collections.abc import Awaitable, Callable

from nicegui import events, ui

from nekro_core.console.view import View
from nekro_core.console.widgets import size_text


def upload_button(
    view: View,
    label: str,
    on_upload: Callable[[events.UploadEventArguments], Awaitable[None]] | None = None,
    *,
    max_bytes: int | None = None,
    accept: str = "",
) -> ui.upload:
    """Draw a button that lets a person choose one file and uploads it at once. The uploader of
    Quasar stays hidden, because its own buttons have no names that a screen reader could read.

    Args:
        view: The opened page.
        label: The text of the button. It says what the file is for.
        on_upload: Called with each uploaded file.
        max_bytes: The maximum size of a file. The browser refuses a larger one, and the person is
            told the limit.
        accept: The allowed endings of file names, for example ``.zip,.py``. If empty, all endings
            are allowed.

    Returns:
        The hidden uploader. ``run_method("pickFiles")`` opens the choice of a file.
    """

    def refused() -> None:
        limits = [accept.replace(",", ", ")] if accept else []
        limits += [f"≤ {size_text(max_bytes)}"] if max_bytes else []
        view.tell(view.say("frame.upload_refused", limits=", ".join(limits)), bad=True)

    async def uploaded(given: events.UploadEventArguments) -> None:
        if on_upload is not None:
            await on_upload(given)
        upload.reset()

    upload = ui.upload(
        on_upload=uploaded, on_rejected=refused, max_file_size=max_bytes, auto_upload=True
    ).classes("nc-hidden-upload")
    if accept:
        upload.props["accept"] = accept
    button = ui.button(
        label, icon="upload_file", on_click=lambda: upload.run_method("pickFiles")
    ).props("outline no-caps")
    upload.on("uploading", lambda: button.props("loading"), js_handler="() => emit()")
    upload.on("finish", lambda: button.props(remove="loading"), js_handler="() => emit()")
    return upload
