"""Draws the page of platforms and the bot's accounts on them."""

from collections.abc import Hashable, Sequence

from nicegui import ui

from nekro_core.console.pages.account_card import AccountCard
from nekro_core.console.pages.account_dialogs import AccountDialogs
from nekro_core.console.view import View
from nekro_core.console.widgets import badge, empty, heading
from nekro_core.delivery.platforms.switch import PlatformState, PlatformStatus
from nekro_core.operator.platforms import AccountView
from nekro_core.operator.roles import AccessRole

_LOOK_S = 2.0
"""Seconds between two reads of the accounts."""
_LOOKS = 5
"""The platforms are read only at each fifth read of the accounts, because reading the platforms
means reading the files of all manifests."""
_KINDS = {PlatformState.RUNNING: "good", PlatformState.FAILED: "bad"}


async def platforms_page(view: View) -> None:
    """Draw the page."""
    ui.label(view.say("platforms.lead")).classes("nc-lead")
    page = _PlatformList(view)
    await page.refresh()
    ui.timer(_LOOK_S, page.look, immediate=False)


class _PlatformList:
    """The platforms. They are drawn again only if a platform has changed, or an account was added
    or removed. A new state of an account is written into its card, so that the keyboard's focus
    does not move."""

    def __init__(self, view: View) -> None:
        self._view, self._area = view, view.operator.platforms
        self._root = ui.element("div")
        self._dialogs = AccountDialogs(view, ui.element("div"), self.refresh)
        self._platforms: Sequence[PlatformStatus] = ()
        self._live: dict[str, bool] = {}
        self._cards: dict[tuple[str, str], AccountCard] = {}
        self._drawn: Hashable = None
        self._looks = 0

    async def refresh(self) -> None:
        """Read the platforms and the accounts, and show them."""
        self._platforms = await self._area.listed(self._view.actor)
        for each in self._platforms:
            if each.state is PlatformState.RUNNING and each.manages_accounts:
                form = await self._area.form(self._view.actor, platform=each.name)
                self._live[each.name] = form.live
        await self._show()

    async def look(self) -> None:
        """Show what has changed since the last call."""
        self._looks += 1
        if self._looks % _LOOKS == 0:
            await self.refresh()
        else:
            await self._show()

    async def _show(self) -> None:
        accounts = await self._area.accounts(self._view.actor)
        places = [(each.platform, each.status.key, each.status.locked) for each in accounts]
        shape = (tuple(self._platforms), tuple(places))
        if shape != self._drawn:
            self._drawn = shape
            self._draw(accounts)
        for each in accounts:
            self._cards[each.platform, each.status.key].show(each.status)

    def _draw(self, accounts: Sequence[AccountView]) -> None:
        self._cards.clear()
        self._root.clear()
        on = [each for each in self._platforms if each.state is not PlatformState.OFF]
        off = [each for each in self._platforms if each.state is PlatformState.OFF]
        say = self._view.say
        with self._root:
            heading(say("platforms.running"))
            if not on:
                empty(self._view, "platforms.nothing")
            with ui.element("div").classes("nc-list"):
                for each in on:
                    self._draw_platform(
                        each, [row for row in accounts if row.platform == each.name]
                    )
            heading(say("platforms.more"))
            if not off:
                ui.label(say("platforms.all_on")).classes("nc-soft")
            with ui.element("div").classes("nc-tiles"):
                for each in off:
                    with ui.element("article").classes("nc-card nc-platform-off"):
                        ui.label(each.title).classes("nc-grow")
                        self._switch(each)

    def _draw_platform(self, platform: PlatformStatus, accounts: Sequence[AccountView]) -> None:
        say = self._view.say
        with ui.element("section").classes("nc-card nc-platform") as section:
            section.props["aria-label"] = platform.title
            with ui.element("div").classes("nc-row"):
                title = ui.label(platform.title).classes("nc-platform-title")
                title.props('role="heading" aria-level="3"')
                badge(say(f"platforms.state_{platform.state}"), _KINDS.get(platform.state, ""))
                ui.element("div").classes("nc-grow")
                self._switch(platform)
                if platform.state is PlatformState.RUNNING and platform.manages_accounts:
                    self._add_button(platform)
            self._notes(platform)
            if accounts:
                with ui.element("div").classes("nc-platform-accounts"):
                    for each in accounts:
                        card = AccountCard(self._view, platform, each.status, self._dialogs)
                        self._cards[each.platform, each.status.key] = card
            elif platform.state is PlatformState.RUNNING and platform.manages_accounts:
                ui.label(say("platforms.no_accounts")).classes("nc-soft")

    def _notes(self, platform: PlatformStatus) -> None:
        say = self._view.say
        running = platform.state is PlatformState.RUNNING
        notes: list[str] = []
        if platform.locked:
            named = platform.locked != "always"
            notes.append(say("platforms.locked_named" if named else "platforms.locked_always"))
        if platform.restart_needed:
            notes.append(say("platforms.restart_needed"))
        if running and platform.manages_accounts and not self._live.get(platform.name, True):
            notes.append(say("platforms.not_live"))
        if running and not platform.manages_accounts and platform.locked != "always":
            notes.append(say("platforms.environment"))
        if not running and platform.extra:
            notes.append(say("platforms.install", extra=platform.extra))
        for note in notes:
            ui.label(note).classes("nc-soft nc-small nc-lines")
        if platform.problem:
            ui.label(platform.problem).classes("nc-bad nc-small nc-lines")

    def _switch(self, platform: PlatformStatus) -> None:
        view, area = self._view, self._area
        if not view.may(AccessRole.OPERATOR):
            return
        is_on = platform.state is not PlatformState.OFF
        if platform.state is not PlatformState.RUNNING:
            enable = ui.button(
                view.say("platforms.enable"),
                on_click=lambda: view.perform(
                    area.enable(view.actor, platform=platform.name),
                    view.say("platforms.enabled", title=platform.title),
                    refresh=self.refresh,
                ),
            ).props("outline no-caps")
            enable.props["aria-label"] = f"{view.say('platforms.enable')}: {platform.title}"
        if is_on and not platform.locked:
            disable = ui.button(
                view.say("platforms.disable"),
                on_click=lambda: view.perform(
                    area.disable(view.actor, platform=platform.name),
                    view.say("platforms.disabled", title=platform.title),
                    refresh=self.refresh,
                ),
            ).props("flat no-caps")
            disable.props["aria-label"] = f"{view.say('platforms.disable')}: {platform.title}"

    def _add_button(self, platform: PlatformStatus) -> None:
        if self._view.may(AccessRole.OPERATOR):
            add = ui.button(
                self._view.say("platforms.add"),
                icon="add",
                on_click=lambda: self._dialogs.add(platform),
            ).props("unelevated no-caps")
            add.props["aria-label"] = f"{self._view.say('platforms.add')}: {platform.title}"
