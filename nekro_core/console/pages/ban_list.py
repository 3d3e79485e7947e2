"""Draws the list of banned people."""

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.widgets import empty
from nekro_core.delivery.platforms.switch import PlatformState
from nekro_core.operator.roles import AccessRole
from nekro_core.policy.ban_list import BannedPerson

_LOOK_S = 5.0
_MOST_SHOWN = 200
"""Maximum number of people in the list. Further people are found with the filter."""


class BanListView:
    """The banned people.

    Args:
        view: The opened page.
    """

    def __init__(self, view: View) -> None:
        self._view, self._area = view, view.operator.requests
        self._drawn: tuple[list[BannedPerson], str] | None = None

    async def draw(self) -> None:
        """Draw the list into the current element of the page."""
        view = self._view
        ui.label(view.say("requests.ban_lead")).classes("nc-lead")
        if view.may(AccessRole.OPERATOR):
            await self._draw_form()
        words = ui.input(view.say("requests.ban_filter")).props("outlined dense clearable")
        self._words = words.props("debounce=300").classes("nc-ban-filter")
        self._list = ui.element("div").classes("nc-list")
        self._words.on_value_change(self.refresh)
        await self.refresh()
        ui.timer(_LOOK_S, self.refresh, immediate=False)

    async def refresh(self) -> None:
        """Read the list, and draw it again if it has changed."""
        wanted = (self._words.value or "").casefold().strip()
        everyone = await self._area.banned(self._view.actor)
        if self._drawn == (everyone, wanted):
            return
        self._drawn = (everyone, wanted)
        found = [each for each in everyone if wanted in f"{each.place}:{each.user_id}".casefold()]
        self._words.set_visibility(bool(everyone))
        self._list.clear()
        with self._list:
            if not everyone:
                empty(self._view, "requests.nobody")
            elif not found:
                ui.label(self._view.say("requests.ban_none_found")).classes("nc-soft")
            for each in found[:_MOST_SHOWN]:
                self._draw_person(each)
            if len(found) > _MOST_SHOWN:
                more = self._view.say("requests.ban_more", count=len(found) - _MOST_SHOWN)
                ui.label(more).classes("nc-soft")

    def _draw_person(self, person: BannedPerson) -> None:
        view = self._view
        with ui.element("article").classes("nc-card nc-row nc-banned"):
            ui.label(person.user_id).classes("nc-grow")
            ui.label(person.place).classes("nc-soft nc-small")
            if view.may(AccessRole.OPERATOR):
                unban = ui.button(
                    view.say("requests.unban"),
                    on_click=lambda: view.perform(
                        self._area.unban(view.actor, place=person.place, user_id=person.user_id),
                        view.say("requests.unbanned", person=person.user_id),
                        refresh=self.refresh,
                    ),
                ).props("flat dense no-caps")
                unban.props["aria-label"] = f"{view.say('requests.unban')}: {person.user_id}"

    async def _draw_form(self) -> None:
        view = self._view
        platforms = await view.operator.platforms.listed(view.actor)
        names = [each.name for each in platforms if each.state is PlatformState.RUNNING]
        with ui.element("form").classes("nc-filters") as form:
            place = ui.input(view.say("requests.ban_place"), autocomplete=names)
            place.props("outlined dense").classes("nc-grow")
            person = ui.input(view.say("requests.ban_person"))
            person.props("outlined dense").classes("nc-grow")

            async def ban() -> None:
                done = await view.perform(
                    self._area.ban.invoke(
                        view.actor,
                        {
                            "place": (place.value or "").strip(),
                            "user_id": (person.value or "").strip(),
                        },
                    ),
                    view.say("requests.banned_now", person=person.value or ""),
                    refresh=self.refresh,
                )
                if done is not None:
                    person.value = ""

            form.on("submit.prevent", ban)
            ui.button(view.say("requests.ban")).props('type="submit" unelevated no-caps')
        ui.label(view.say("requests.ban_hint")).classes("nc-soft nc-small nc-ban-hint")
