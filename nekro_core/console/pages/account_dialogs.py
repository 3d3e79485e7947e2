"""Draws the forms of accounts: their settings, the connection test, and what the other side needs.

They are dialogs, so that drawing the list of accounts again does not delete what a person typed.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nicegui import ui

from nekro_core.console.copy_button import copy_button
from nekro_core.console.form_view import FormView
from nekro_core.console.view import View
from nekro_core.console.widgets import badge
from nekro_core.delivery.platforms.contract import (
    AccountState,
    AccountStatus,
    ConnectionHint,
    ConnectionTest,
    HintField,
)
from nekro_core.delivery.platforms.errors import ConnectionProblem
from nekro_core.delivery.platforms.switch import PlatformStatus
from nekro_core.operator.platforms import AccountSettings
from nekro_core.plugins.forms.from_schema import fields_of_schema
from nekro_core.system.errors import NekroError

_WAIT_S = 10.0
"""Seconds of one wait for an account. Then the present state is shown, and the wait goes on."""
_BROWSER_S = 5.0
"""Maximum seconds until the browser says its address."""


class AccountDialogs:
    """The forms of accounts.

    Args:
        view: The opened page.
        place: The part of the page to which the dialogs belong.
        refresh: Draws the list of accounts again.
    """

    def __init__(
        self, view: View, place: ui.element, refresh: Callable[[], Awaitable[None]]
    ) -> None:
        self._view, self._area = view, view.operator.platforms
        self.place = place
        self.refresh = refresh

    async def add(self, platform: PlatformStatus) -> None:
        """Show the form of a new account."""
        view = self._view
        form_of = await self._area.form(view.actor, platform=platform.name)
        with self._dialog(view.say("platforms.add_title", title=platform.title)) as dialog:
            form = FormView(view, fields_of_schema(form_of.json_schema), {}, prefix="settings")
            tested = ui.element("div").props('role="status"')

            async def send() -> None:
                status = await form.send(
                    lambda entered: self._area.add_account.invoke(
                        view.actor, {"platform": platform.name, "settings": entered}
                    ),
                    view.say("platforms.added"),
                    refresh=self.refresh,
                )
                if status is not None:
                    dialog.delete()
                    await self.connect(platform, status.key)

            with self._buttons(dialog):
                self._test_button(tested, platform, form, "")
                self._main_button("add_do", send)

    async def change(self, platform: PlatformStatus, account: str) -> None:
        """Show the form of an account."""
        view = self._view
        form_of = await self._area.form(view.actor, platform=platform.name)
        title = view.say("platforms.edit_title", account=account, title=platform.title)
        with self._dialog(title) as dialog:
            content = ui.element("div").classes("nc-wide")
            forms: list[tuple[FormView, AccountSettings]] = []

            async def load() -> None:
                settings = await self._area.account_settings(
                    view.actor, platform=platform.name, account=account
                )
                content.clear()
                with content:
                    form = FormView(
                        view,
                        fields_of_schema(form_of.json_schema),
                        settings.values,
                        prefix="settings",
                        kept=settings.secrets,
                        reload=load,
                    )
                forms[:] = [(form, settings)]

            try:
                await load()
            except NekroError as error:
                dialog.close()
                view.show_error(error)
                return
            tested = ui.element("div").props('role="status"')

            async def send() -> None:
                form, settings = forms[0]
                status = await form.send(
                    lambda entered: self._area.change_account.invoke(
                        view.actor,
                        {
                            "platform": platform.name,
                            "account": account,
                            "settings": entered,
                            "expected": settings.revision,
                        },
                    ),
                    view.say("platforms.changed", account=account),
                    changed_only=True,
                    refresh=self.refresh,
                )
                if status is not None:
                    dialog.close()

            with self._buttons(dialog):
                self._test_button(tested, platform, lambda: forms[0][0], account)
                self._main_button("edit", send)

    async def test(self, platform: PlatformStatus, account: str) -> None:
        """Test the connection of an account with its present settings, and show the verdict."""
        view = self._view
        with self._dialog(f"{view.say('platforms.test')}: {account}") as dialog:
            place = ui.element("div").props('role="status"')
            with place:
                ui.spinner(size="22px")
            with self._buttons(dialog):
                pass
        verdict = await self._tested(platform, {}, account, view.show_error)
        if dialog.is_deleted:
            return
        if verdict is None:
            dialog.close()
        else:
            self._show_verdict(place, verdict)

    async def connect(self, platform: PlatformStatus, account: str) -> None:
        """Show what the other side needs, and wait until the account is online."""
        view = self._view
        with self.place:
            origin = await ui.run_javascript("location.origin", timeout=_BROWSER_S)
        title = view.say("platforms.connect_title", account=account, title=platform.title)
        with self._dialog(title) as dialog:
            seen = ui.element("div").classes("nc-row nc-account-seen").props('role="status"')
            address = ui.input(view.say("platforms.address"), value=str(origin))
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
            with self._buttons(dialog):
                pass
        with self.place:
            await show_lines()
        await self._wait(dialog, seen, platform, account)

    async def _wait(
        self, dialog: ui.dialog, seen: ui.element, platform: PlatformStatus, account: str
    ) -> None:
        """Show the account's state until it is online or the dialog is closed."""
        limit = 0.05  # the first state is shown at once
        while _is_open(dialog):
            try:
                status = await self._area.wait_until_seen(
                    self._view.actor, platform=platform.name, account=account, limit_s=limit
                )
            except NekroError as error:  # it was removed meanwhile
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

    def _test_button(
        self,
        place: ui.element,
        platform: PlatformStatus,
        form: FormView | Callable[[], FormView],
        account: str,
    ) -> None:
        async def test() -> None:
            present = form if isinstance(form, FormView) else form()
            entered = present.values()
            if entered is None:
                return
            place.clear()
            button.props("loading")
            try:
                verdict = await self._tested(platform, entered, account, present.show_refusal)
            finally:
                if not button.is_deleted:
                    button.props(remove="loading")
            if verdict is not None and not place.is_deleted:
                self._show_verdict(place, verdict)

        button = ui.button(self._view.say("platforms.test"), on_click=test)
        button.props("outline no-caps")

    async def _tested(
        self,
        platform: PlatformStatus,
        settings: dict[str, Any],
        account: str,
        refused: Callable[[NekroError], None],
    ) -> ConnectionTest | None:
        view = self._view
        return await view.perform(
            self._area.test_account.invoke(
                view.actor, {"platform": platform.name, "settings": settings, "account": account}
            ),
            view.say("platforms.tested"),
            refused=refused,
        )

    def _show_verdict(self, place: ui.element, verdict: ConnectionTest) -> None:
        view = self._view
        waits = verdict.problem is ConnectionProblem.WAITS_FOR_PEER
        kind = "good" if verdict.ok else "warn" if waits else "bad"
        place.clear()
        with place, ui.element("div").classes("nc-row nc-verdict"):
            badge(view.say(f"platforms.problem_{verdict.problem}"), kind)
            text = view.say("platforms.test_seconds", text=verdict.text, seconds=verdict.seconds)
            ui.label(text).classes("nc-grow nc-lines")

    @contextmanager
    def _dialog(self, title: str) -> Iterator[ui.dialog]:
        with self.place, ui.dialog() as dialog, ui.card().classes("nc-dialog nc-account-dialog"):
            dialog.props["aria-label"] = title
            ui.label(title).classes("nc-dialog-title").props('role="heading" aria-level="2"')
            dialog.on("hide", dialog.delete)
            dialog.open()
            yield dialog

    @contextmanager
    def _buttons(self, dialog: ui.dialog) -> Iterator[None]:
        with ui.row().classes("nc-dialog-buttons"):
            close = ui.button(self._view.say("platforms.close"), on_click=dialog.close)
            close.props("flat no-caps")
            yield

    def _main_button(self, name: str, do: Callable[[], Awaitable[None]]) -> None:
        button = ui.button(self._view.say(f"platforms.{name}"), on_click=do)
        button.props("unelevated no-caps")


def _is_open(dialog: ui.dialog) -> bool:
    return not dialog.is_deleted and bool(dialog.value)
