"""Draws an input in which one chat is chosen, and a search in which several chats are chosen."""

from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from nekro_core.chat import ChatKey
from nekro_core.console.view import View
from nekro_core.delivery.outbound.announcements import MOST_CHATS
from nekro_core.operator.chat_views import ChatRowView, ChatsView
from nekro_core.system.errors import NekroError

_OFFERED = 30
"""Maximum number of chats that the input for one chat offers at once."""
_PAGE = 20
_WHOLE_PAGE = 500
"""Number of chats that are read at once when the person chooses all chats that were found."""
_MOST_NAMED = 30
"""Maximum number of chosen chats that are shown by name. For the other chats, only their number is
shown."""


async def choose_chat(view: View, label: str, value: str = "") -> ui.select:
    """Draw the input into the current element of the page. The input offers the chats with the
    newest messages, and those that match what the person types. The value of the input is a chat
    key, or None.

    Args:
        view: The opened page.
        label: What the input is called.
        value: The chat that is chosen at the beginning; empty for none.

    Returns:
        The input.
    """

    async def offered(text: str) -> dict[str, str]:
        found = await view.operator.chats.newest(view.actor, text=text[:200], limit=_OFFERED)
        return {str(each.chat_key): _title(each) for each in found.chats}

    options = await offered("")
    if value:
        options.setdefault(value, value)
    select = ui.select(options, label=label, value=value or None, with_input=True, clearable=True)
    select.props("outlined dense options-dense input-debounce=200").classes("nc-wide")

    async def search(event: GenericEventArguments) -> None:
        try:
            found: dict[Any, str] = await offered(str(event.args or ""))
        except NekroError as error:
            view.show_error(error)
            return
        if select.value:
            found.setdefault(select.value, str(select.value))
        select.set_options(found, value=select.value)

    select.on("input-value", search, throttle=0.2, leading_events=False)
    return select


class ChatChooser:
    """A search for chats.

    Args:
        view: The opened page.

    Attributes:
        chosen: The chosen chats with their names.
    """

    def __init__(self, view: View) -> None:
        self._view, self._area = view, view.operator.chats
        self.chosen: dict[ChatKey, str] = {}
        self._boxes: dict[ChatKey, ui.checkbox] = {}
        self._before = 0
        self._looked = 0

    async def draw(self) -> None:
        """Draw the search and the chosen chats into the current element of the page."""
        view = self._view
        platforms = await view.operator.platforms.listed(view.actor)
        names = {"": view.say("broadcast.every_platform")}
        names |= {each.name: each.title for each in platforms}
        with ui.element("div").classes("nc-filters nc-chooser-words"):
            self._words = ui.input(view.say("broadcast.find")).classes("nc-grow")
            self._words.props("outlined dense clearable debounce=300")
            self._platform = ui.select(names, value="", label=view.say("broadcast.platform"))
            self._platform.props("outlined dense")
        self._found = ui.element("div").classes("nc-chooser")
        self._found.props('role="group" tabindex=0')
        self._found.props["aria-label"] = view.say("broadcast.found")
        with ui.element("div").classes("nc-row"):
            self._more = ui.button(view.say("broadcast.more"), on_click=self._read_on)
            self._more.props("flat dense no-caps")
            self._all = ui.button(view.say("broadcast.all_found"), on_click=self._choose_all)
            self._all.props("flat dense no-caps")
        with ui.element("div").classes("nc-row").props('role="status"'):
            self._count = ui.label()
            self._none = ui.button(view.say("broadcast.clear"), on_click=self.clear)
            self._none.props("flat dense no-caps")
        self._chips = ui.element("div").classes("nc-row nc-chooser-chips")
        self._words.on_value_change(self._search)
        self._platform.on_value_change(self._search)
        self._show_chosen()
        await self._search()

    async def clear(self) -> None:
        """Remove all chats from the choice."""
        self.chosen.clear()
        for box in self._boxes.values():
            box.value = False
        self._show_chosen()

    async def _search(self) -> None:
        self._looked += 1
        mine = self._looked
        page = await self._page(0, _PAGE)
        if mine != self._looked:  # the person has meanwhile typed more
            return
        self._boxes.clear()
        self._found.clear()
        self._show_page(page.chats, page.before)
        if not page.chats:
            with self._found:
                ui.label(self._view.say("broadcast.none_found")).classes("nc-soft")

    async def _read_on(self) -> None:
        page = await self._page(self._before, _PAGE)
        self._show_page(page.chats, page.before)

    async def _choose_all(self) -> None:
        before = 0
        while len(self.chosen) < MOST_CHATS:
            page = await self._page(before, _WHOLE_PAGE)
            for chat in page.chats[: MOST_CHATS - len(self.chosen)]:
                self.chosen[chat.chat_key] = _name(chat)
            before = page.before
            if not before:
                break
        for key, box in self._boxes.items():
            box.value = key in self.chosen
        self._show_chosen()

    async def _page(self, before: int, limit: int) -> ChatsView:
        return await self._area.newest(
            self._view.actor,
            platform=self._platform.value or "",
            text=(self._words.value or "").strip(),
            before=before,
            limit=limit,
        )

    def _show_page(self, chats: list[ChatRowView], before: int) -> None:
        self._before = before
        with self._found:
            for chat in chats:
                self._draw_chat(chat)
        self._more.set_visibility(bool(before))
        self._all.set_visibility(bool(self._boxes))

    def _draw_chat(self, chat: ChatRowView) -> None:
        key, name = chat.chat_key, _name(chat)

        def choose() -> None:
            if box.value:
                self.chosen[key] = name
            else:
                self.chosen.pop(key, None)
            self._show_chosen()

        with ui.element("div").classes("nc-row nc-chooser-row"):
            box = ui.checkbox(name, value=key in self.chosen).props("dense").classes("nc-grow")
            about = [str(key)] if name != str(key) else []
            about.append(self._view.say(f"broadcast.chat_{chat.state}"))
            ui.label(" · ".join(about)).classes("nc-soft nc-small")
        box.on_value_change(choose)
        self._boxes[key] = box

    def _show_chosen(self) -> None:
        say = self._view.say
        self._count.text = say("broadcast.chosen", count=len(self.chosen))
        self._none.set_visibility(bool(self.chosen))
        self._chips.clear()
        with self._chips:
            for key, name in [*self.chosen.items()][:_MOST_NAMED]:
                self._draw_chip(key, name)
            if len(self.chosen) > _MOST_NAMED:
                count = len(self.chosen) - _MOST_NAMED
                ui.label(say("broadcast.and_more", count=count)).classes("nc-soft")

    def _draw_chip(self, key: ChatKey, name: str) -> None:
        def remove() -> None:
            self.chosen.pop(key, None)
            if key in self._boxes:
                self._boxes[key].value = False
            self._show_chosen()

        with ui.element("div").classes("nc-badge nc-chip"):
            ui.label(name)
            button = ui.button(icon="close", on_click=remove).props("flat dense round size=xs")
            button.props["aria-label"] = self._view.say("broadcast.take_out", chat=name)


def _name(chat: ChatRowView) -> str:
    return chat.name or str(chat.chat_key)


def _title(chat: ChatRowView) -> str:
    """Return the name and the key of a chat."""
    return f"{chat.name} · {chat.chat_key}" if chat.name else str(chat.chat_key)
