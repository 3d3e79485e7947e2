"""Draws the forms of accounts: their settings and the connection test.

The forms are dialogs, so that a person's typed values are not lost when the list of accounts is
drawn again.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from nekro_core.console.form_view import FormView
from nekro_core.console.pages.connect_dialog import ConnectDialog, account_dialog, dialog_buttons
from nekro_core.console.view import View
from nekro_core.console.widgets import badge, role_button
from nekro_core.delivery.platforms.contract import ConnectionTest
from nekro_core.delivery.platforms.errors import ConnectionProblem
from nekro_core.delivery.platforms.switch import PlatformStatus
from nekro_core.operator.platforms import AccountSettings
from nekro_core.operator.roles import AccessRole
from nekro_core.plugins.forms.from_schema import fields_of_schema
from nekro_core.system.errors import NekroError


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
        with account_dialog(
            self.place, view.say("platforms.add_title", title=platform.title)
        ) as dialog:
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

            with dialog_buttons(view, dialog):
                self._test_button(tested, platform, form, "")
                self._main_button("add_do", send)

    async def change(self, platform: PlatformStatus, account: str) -> None:
        """Show the form of an account."""
        view = self._view
        form_of = await self._area.form(view.actor, platform=platform.name)
        title = view.say("platforms.edit_title", account=account, title=platform.title)
        with account_dialog(self.place, title) as dialog:
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

            with dialog_buttons(view, dialog):
                self._test_button(tested, platform, lambda: forms[0][0], account)
                self._main_button("edit", send)

    async def test(self, platform: PlatformStatus, account: str) -> None:
        """Test the connection of an account with its present settings, and show the result."""
        view = self._view
        with account_dialog(self.place, f"{view.say('platforms.test')}: {account}") as dialog:
            place = ui.element("div").props('role="status"')
            with place:
                ui.spinner(size="22px")
            with dialog_buttons(view, dialog):
                pass
        verdict = await self._tested(platform, {}, account, view.show_error)
        if dialog.is_deleted:
            return
        if verdict is None:
            dialog.close()
        else:
            self._show_verdict(place, verdict)

    async def connect(self, platform: PlatformStatus, account: str) -> None:
        """Show what to enter in the platform's program, and wait until the account is online."""
        await ConnectDialog(self._view, self.place, platform, account).show()

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

        view = self._view
        button = role_button(view, AccessRole.OWNER, view.say("platforms.test"), test)
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

    def _main_button(self, name: str, do: Callable[[], Awaitable[None]]) -> None:
        button = ui.button(self._view.say(f"platforms.{name}"), on_click=do)
        button.props("unelevated no-caps")
