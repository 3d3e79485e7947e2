"""Draws one account of a platform with its state and buttons."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from nekro_core.console.pages.account_dialogs import AccountDialogs
from nekro_core.console.view import View
from nekro_core.console.widgets import confirm, local_time, role_button
from nekro_core.delivery.platforms.contract import AccountState, AccountStatus, TrafficCount
from nekro_core.delivery.platforms.switch import PlatformStatus
from nekro_core.operator.roles import AccessRole

_KINDS = {
    AccountState.ONLINE: "good",
    AccountState.CONNECTING: "warn",
    AccountState.OFFLINE: "warn",
    AccountState.PAUSED: "plain",
    AccountState.FAILED: "bad",
}


class AccountCard:
    """The card of one account.

    Args:
        view: The opened page.
        platform: The account's platform.
        status: The account's present state.
        dialogs: Shows the forms of the account's settings and its connection test.
    """

    def __init__(
        self, view: View, platform: PlatformStatus, status: AccountStatus, dialogs: AccountDialogs
    ) -> None:
        self._view, self._platform, self._key = view, platform, status.key
        self._dialogs = dialogs
        self._state: AccountState | None = None
        self._facts: dict[str, tuple[ui.element, ui.label]] = {}
        with ui.element("article").classes("nc-account") as card:
            card.props["aria-label"] = status.key
            with ui.element("div").classes("nc-row"):
                self._badge = ui.label().classes("nc-badge")
                ui.label(status.key).classes("nc-account-key nc-grow")
            if status.locked:
                about = view.say("platforms.locked", setting=status.locked)
                ui.label(about).classes("nc-soft nc-small")
            self._restart = ui.label(view.say("platforms.restart_needed"))
            self._restart.classes("nc-soft nc-small")
            with ui.element("dl").classes("nc-account-facts nc-small"):
                for name in ("id", "since", "last_event", "received", "sent"):
                    self._fact(name)
            self._error_at = ui.label().classes("nc-soft nc-small")
            self._error = ui.label().classes("nc-bad nc-small nc-lines")
            self._pause: ui.button | None = None
            self._resume: ui.button | None = None
            if view.may(AccessRole.OPERATOR):
                with ui.element("div").classes("nc-row nc-account-buttons"):
                    self._draw_buttons(locked=bool(status.locked))

    def show(self, status: AccountStatus) -> None:
        """Show the account's present state."""
        say = self._view.say
        self._badge.text = say(f"platforms.account_{status.state}")
        if status.state is not self._state:
            self._badge.classes(replace=f"nc-badge nc-badge-{_KINDS[status.state]}")
            self._state = status.state
        self._restart.set_visibility(status.restart_needed)
        self._say("id", status.account if status.account != status.key else "")
        self._say("since", local_time(status.connected_since or 0))
        self._say("last_event", local_time(status.last_event_at or 0) or say("platforms.never"))
        self._say("received", self._rates(status.events))
        self._say("sent", self._rates(status.sends))
        time = local_time(status.last_error_at or 0)
        self._error_at.text = say("platforms.last_error", time=time) if status.last_error else ""
        self._error_at.set_visibility(bool(status.last_error))
        self._error.text = status.last_error
        self._error.set_visibility(bool(status.last_error))
        paused = status.state is AccountState.PAUSED
        if self._pause is not None and self._resume is not None:
            self._pause.set_visibility(not paused)
            self._resume.set_visibility(paused)

    def _fact(self, name: str) -> None:
        with ui.element("div") as row:
            with ui.element("dt").classes("nc-soft"):
                ui.label(self._view.say(f"platforms.{name}"))
            with ui.element("dd"):
                self._facts[name] = row, ui.label()

    def _say(self, name: str, text: str) -> None:
        row, label = self._facts[name]
        row.set_visibility(bool(text))
        label.text = text

    def _rates(self, count: TrafficCount) -> str:
        if not count.total:
            return self._view.say("platforms.never")
        return self._view.say(
            "platforms.rates",
            minute=count.last_minute,
            hour=count.last_hour,
            total=count.total,
        )

    def _draw_buttons(self, *, locked: bool) -> None:
        platform, key, dialogs = self._platform, self._key, self._dialogs
        if not locked:
            self._button("edit", lambda: dialogs.change(platform, key), AccessRole.OWNER)
        self._button("connect", lambda: dialogs.connect(platform, key), AccessRole.OWNER)
        self._button("test", lambda: dialogs.test(platform, key), AccessRole.OWNER)
        self._pause = self._button("pause", self._do_pause)
        self._resume = self._button("resume", self._do_resume)
        if not locked:
            self._button("remove", self._do_remove)

    def _button(
        self, name: str, do: Callable[[], Any], role: AccessRole = AccessRole.OPERATOR
    ) -> ui.button:
        say = self._view.say
        button = role_button(self._view, role, say(f"platforms.{name}"), do)
        button.props("flat dense no-caps")
        button.props["aria-label"] = f"{say(f'platforms.{name}')}: {self._key}"
        return button

    async def _do_pause(self) -> None:
        view = self._view
        await view.perform(
            view.operator.platforms.pause_account(
                view.actor, platform=self._platform.name, account=self._key
            ),
            view.say("platforms.paused", account=self._key),
            refresh=self._dialogs.refresh,
        )

    async def _do_resume(self) -> None:
        view = self._view
        await view.perform(
            view.operator.platforms.resume_account(
                view.actor, platform=self._platform.name, account=self._key
            ),
            view.say("platforms.resumed", account=self._key),
            refresh=self._dialogs.refresh,
        )

    async def _do_remove(self) -> None:
        view, key = self._view, self._key
        with self._dialogs.place:
            agreed = await confirm(
                view,
                view.say("platforms.remove_ask", account=key),
                details=view.say("platforms.remove_about"),
                button=view.say("platforms.remove"),
            )
        if agreed:
            await view.perform(
                view.operator.platforms.remove_account(
                    view.actor, platform=self._platform.name, account=key
                ),
                view.say("platforms.removed", account=key),
                refresh=self._dialogs.refresh,
            )
