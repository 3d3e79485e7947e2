"""Draws the values that an operator enters in the platform's program (such as NapCat), so that it
connects an account to the bot. Waits until the account is online."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from nicegui import ui

from nekro_core.console.copy_button import copy_button
from nekro_core.console.view import View
from nekro_core.console.widgets import badge
from nekro_core.delivery.platforms.contract import (
    AccountState,
    AccountStatus,
    ConnectionHint,
    HintField,
)
from nekro_core.delivery.platforms.switch import PlatformStatus
from nekro_core.operator.roles import AccessRole
from nekro_core.system.errors import NekroError

_WAIT_S = 10.0
"""Seconds of one wait for an account. After each wait, the account's state is shown, and the next
wait begins."""
_BROWSER_S = 5.0
"""Maximum wait for the browser's answer with the address of its page, in seconds."""


class ConnectDialog:
    """The dialog with the values and lines that an operator enters in the platform's program.

    Args:
        view: The opened page.
        place: The part of the page to which the dialog belongs.
        platform: The platform.
        account: The account's key.
    """

    def __init__(
        self, view: View, place: ui.element, platform: PlatformStatus, account: str
    ) -> None:
        self._view, self._area, self._place = view, view.operator.platforms, place
        self._platform, self._account = platform, account

    async def show(self) -> None:
        """Show the dialog. Returns when the account is online, paused or removed, or when the
        dialog is closed."""
        view, platform, account = self._view, self._platform, self._account
        with self._place:
            origin = await ui.run_javascript("location.origin", timeout=_BROWSER_S)
        title = view.say("platforms.connect_title", account=account, title=platform.title)
        with account_dialog(self._place, title) as dialog:
            seen = ui.element("div").classes("nc-row nc-account-seen").props('role="status"')
            show_lines = self._draw_lines(str(origin)) if view.may(AccessRole.OWNER) else None
            if show_lines is None:
                ui.label(view.say("platforms.lines_for_owners")).classes("nc-soft")
            with dialog_buttons(view, dialog):
                pass
        if show_lines is not None:
            with self._place:
                await show_lines()
        await self._wait(dialog, seen)

    def _draw_lines(self, origin: str) -> Callable[[], Awaitable[None]]:
        """Draw an empty area for the lines to enter. Returns a function that shows the lines in
        it."""
        view, platform, account = self._view, self._platform, self._account
        address = ui.input(view.say("platforms.address"), value=origin)
        address.props("outlined dense").classes("nc-wide")
        ui.label(view.say("platforms.address_hint")).classes("nc-soft nc-small")

        async def show_lines() -> None:
            try:
                hint = await self._area.connection_hint.invoke(
                    view.actor,
                    {
                        "platform": platform.name,
                        "account": account,
                        "address": (address.value or "").strip().rstrip("/"),
                    },
                )
            except NekroError as error:
                view.show_error(error)
                return
            lines.clear()
            with lines:
                self._draw_hint(hint)

        again = ui.button(view.say("platforms.show_lines"), on_click=show_lines)
        again.props("flat dense no-caps")
        address.on("keydown.enter", show_lines)
        lines = ui.element("div").classes("nc-list")
        return show_lines

    async def _wait(self, dialog: ui.dialog, seen: ui.element) -> None:
        """Show the account's state until the account is online, paused or removed, or the dialog is
        closed."""
        limit = 0.05  # the first state is shown at once
        while _is_open(dialog):
            try:
                status = await self._area.wait_until_seen(
                    self._view.actor,
                    platform=self._platform.name,
                    account=self._account,
                    limit_s=limit,
                )
            except NekroError as error:  # the account was removed meanwhile
                self._view.show_error(error)
                return
            if not _is_open(dialog):
                return
            self._draw_seen(seen, status)
            if status.state in (AccountState.ONLINE, AccountState.PAUSED):
                return
            limit = _WAIT_S

    def _draw_seen(self, place: ui.element, status: AccountStatus) -> None:
        view = self._view
        place.clear()
        with place:
            if status.state is AccountState.ONLINE:
                badge(view.say("platforms.account_online"), "good")
                ui.label(view.say("platforms.seen")).classes("nc-good")
                return
            if status.state is not AccountState.PAUSED:
                ui.spinner(size="22px")
                ui.label(view.say("platforms.waiting"))
            state = view.say(f"platforms.account_{status.state}")
            about = view.say("platforms.not_seen", state=state, error=status.last_error)
            ui.label(about).classes("nc-soft nc-small nc-lines")

    def _draw_hint(self, hint: ConnectionHint) -> None:
        view = self._view
        ui.label(hint.text).classes("nc-lines")
        if hint.fields:
            ui.label(view.say("platforms.paste")).classes("nc-section")
        for each in hint.fields:
            with ui.element("div").classes("nc-row nc-hint-field"):
                self._draw_value(each)
                copy_button(view, each.value, each.label)
        for snippet in hint.snippets:
            with ui.expansion(snippet.title).classes("nc-hint-lines"):
                with ui.element("div").classes("nc-row"):
                    about = view.say("platforms.secret_lines") if snippet.secret else ""
                    ui.label(about).classes("nc-soft nc-small nc-grow")
                    copy_button(view, snippet.text, snippet.title)
                lines = ui.element("pre").classes("nc-code").props("tabindex=0")
                with lines:
                    ui.label(snippet.text).classes("nc-text")

    @staticmethod
    def _draw_value(field: HintField) -> None:
        shown = ui.input(
            field.label,
            value=field.value,
            password=field.secret,
            password_toggle_button=field.secret,
        )
        shown.props('readonly outlined dense autocomplete="off"').classes("nc-grow")


@contextmanager
def account_dialog(place: ui.element, title: str) -> Iterator[ui.dialog]:
    """Open a dialog that belongs to a part of the page. It is deleted when it is closed."""
    with place, ui.dialog() as dialog, ui.card().classes("nc-dialog nc-account-dialog"):
        dialog.props["aria-label"] = title
        ui.label(title).classes("nc-dialog-title").props('role="heading" aria-level="2"')
        dialog.on("hide", dialog.delete)
        dialog.open()
        yield dialog


@contextmanager
def dialog_buttons(view: View, dialog: ui.dialog) -> Iterator[None]:
    """Draw the row of buttons at the end of a dialog. One button closes the dialog."""
    with ui.row().classes("nc-dialog-buttons"):
        close = ui.button(view.say("platforms.close"), on_click=dialog.close)
        close.props("flat no-caps")
        yield


def _is_open(dialog: ui.dialog) -> bool:
    return not dialog.is_deleted and bool(dialog.value)
