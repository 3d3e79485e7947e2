"""Draws the page of one chat: its history, and beside it how the bot behaves in this chat."""

from nicegui import ui

from nekro_core.chat import ChatKey
from nekro_core.console.chat_boxes import draw_boxes
from nekro_core.console.chat_history import ChatHistory, draw_search
from nekro_core.console.chat_kept import draw_kept
from nekro_core.console.chat_people import draw_members, draw_timers
from nekro_core.console.chat_policy import draw_policy
from nekro_core.console.chat_tools import draw_tools
from nekro_core.console.pages.chats import STATE_KINDS, worker_text
from nekro_core.console.view import ROOT, View, link_to
from nekro_core.console.widgets import badge, confirm
from nekro_core.operator.errors import ProcessAway
from nekro_core.operator.roles import AccessRole


async def chat_page(view: View) -> None:
    """Draw the page."""
    chat_key = ChatKey.parse(view.place["chat_key"])
    chat = await view.operator.chats.one(view.actor, chat_key=chat_key)
    ui.link(view.say("chats.all"), target=link_to(f"{ROOT}/chats"))
    with ui.element("div").classes("nc-row"):
        ui.label(chat.name or str(chat_key)).classes("nc-section nc-grow")
        badge(view.say(f"chats.state_{chat.state.value}"), STATE_KINDS[chat.state])
        working = badge(view.say("chats.working"), "warn")
        working.set_visibility(chat.working)
        if view.may(AccessRole.OPERATOR):
            _draw_actions(view, chat_key)
    about = (chat.platform, chat.account, chat.kind, str(chat_key), worker_text(view, chat))
    ui.label(" · ".join(filter(None, about))).classes("nc-soft nc-small nc-lines")
    with ui.element("div").classes("nc-chat"):
        with ui.element("div"):
            search = ui.element("div")
            history = ChatHistory(view, chat_key, working.set_visibility)
            with search:
                draw_search(view, chat_key, history)
            if view.may(AccessRole.OPERATOR):
                _draw_say(view, chat_key)
        with ui.element("aside").classes("nc-chat-side"):
            await _draw_side(view, chat_key)
    await history.begin()


async def _draw_side(view: View, chat_key: ChatKey) -> None:
    parts = {
        "policy": draw_policy,
        "tools": draw_tools,
        "members": draw_members,
        "timers": draw_timers,
        "boxes": draw_boxes,
        "kept": draw_kept,
    }
    with ui.tabs().props("dense no-caps align=left").classes("nc-chat-tabs") as tabs:
        for name in parts:
            ui.tab(name, label=view.say(f"chats.tab_{name}"))
    panels = {}
    with ui.tab_panels(tabs, value="policy", animated=False) as shown:
        for name in parts:
            panels[name] = ui.tab_panel(name)

    async def fill(name: str) -> None:
        # Read the content of a tab only when the person opens the tab, because most people do not
        # open it.
        if not panels[name].default_slot.children:
            with panels[name]:
                try:
                    await parts[name](view, chat_key)
                except ProcessAway as error:
                    ui.label(str(error)).classes("nc-bad")

    shown.on_value_change(lambda event: fill(event.value))
    await fill("policy")


def _draw_actions(view: View, chat_key: ChatKey) -> None:
    area, actor = view.operator.chats, view.actor

    async def reset() -> None:
        if await confirm(
            view,
            view.say("chats.reset_ask"),
            details=view.say("chats.reset_details"),
            button=view.say("chats.reset"),
        ):
            await view.perform(area.reset(actor, chat_key=chat_key), view.say("chats.reset_done"))

    async def stop() -> None:
        await view.perform(area.stop(actor, chat_key=chat_key), view.say("chats.stopped"))

    ui.button(view.say("chats.stop"), on_click=stop).props("flat dense no-caps")
    ui.button(view.say("chats.reset"), on_click=reset).props("flat dense no-caps")


def _draw_say(view: View, chat_key: ChatKey) -> None:
    with ui.element("div").classes("nc-chat-say"):
        text = ui.textarea(view.say("chats.say")).props("outlined dense autogrow")

        async def send() -> None:
            sent = await view.perform(
                view.operator.chats.say.invoke(
                    view.actor, {"chat_key": str(chat_key), "text": text.value or ""}
                ),
                view.say("chats.said"),
            )
            if sent is None:
                return
            text.value = ""
            for each in sent:
                if each.reason:
                    view.tell(each.reason, bad=True)

        ui.button(view.say("chats.send"), on_click=send).props("unelevated no-caps")
