"""Draws secrets that are shown only once (links, tokens and recovery codes), with a button to copy
them."""

import base64

import segno
from nicegui import ui

from nekro_core.console.copy_button import copy_button
from nekro_core.console.view import View


def qr_code(address: str, label: str) -> None:
    """Draw an address as a QR code. ``label`` says what the code is, for people who cannot see
    it."""
    source = segno.make(address, error="m").svg_data_uri(scale=5, border=3, light="#fff")
    _picture(source, label)


def qr_of_svg(svg: str, label: str) -> None:
    """Draw a QR code that is an SVG element."""
    encoded = base64.b64encode(_with_namespace(svg).encode()).decode()
    _picture(f"data:image/svg+xml;base64,{encoded}", label)


def show_once(view: View, title: str, text: str, *, hint: str = "", qr: bool = False) -> None:
    """Show a secret in a dialog that only its button closes.

    Args:
        view: The opened page.
        title: What the secret is.
        text: The secret. It may have several lines.
        hint: What the person should do with it.
        qr: Whether the secret is an address, which is also shown as a QR code for a telephone.
    """
    with ui.dialog().props("persistent") as dialog, ui.card().classes("nc-dialog nc-once"):
        ui.label(title).classes("nc-dialog-title")
        ui.label(hint or view.say("account.once")).classes("nc-soft")
        area = ui.textarea(value=text).props("outlined readonly autogrow").classes("nc-wide")
        area.props["aria-label"] = title
        if qr:
            qr_code(text, title)
        with ui.row().classes("nc-dialog-buttons"):
            copy_button(view, text, title, labelled=True)
            ui.button(view.say("account.close_once"), on_click=dialog.close).props(
                "unelevated no-caps"
            )
    dialog.on("hide", dialog.delete)
    dialog.open()


def _picture(source: str, label: str) -> None:
    picture = ui.element("img").classes("nc-qr")
    picture.props["src"], picture.props["alt"] = source, label


def _with_namespace(svg: str) -> str:
    """Return an SVG element with its namespace, which an SVG file needs."""
    if "xmlns" in svg:
        return svg
    return svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
