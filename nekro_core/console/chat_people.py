"""Draws the members and the timers of a chat."""

from nicegui import ui

from nekro_core.chat import ChatKey
from nekro_core.console.view import ROOT, View, link_to
from nekro_core.console.widgets import badge, local_time


async def draw_members(view: View, chat_key: ChatKey) -> None:
    """Draw the people of a chat with their roles and use."""
    members = await view.operator.chats.members(view.actor, chat_key=chat_key)
    if not members:
        ui.label(view.say("chats.no_members")).classes("nc-soft")
    with ui.element("div").classes("nc-list"):
        for each in members:
            with ui.element("article").classes("nc-card"):
                with ui.element("div").classes("nc-row"):
                    ui.label(each.name or each.user_id).classes("nc-grow")
                    if each.role and each.role != "member":
                        badge(each.role)
                use = view.say(
                    "chats.member_use",
                    user_id=each.user_id,
                    messages=each.messages,
                    turns=each.day.turns,
                    tokens=each.day.prompt_tokens + each.day.completion_tokens,
                    cost=f"{each.day.cost:.4f}",
                    ever=f"{each.ever.cost:.4f}",
                )
                ui.label(use).classes("nc-soft nc-small nc-lines")


async def draw_timers(view: View, chat_key: ChatKey) -> None:
    """Draw the timers of a chat."""
    rows = await view.operator.timers.all(view.actor, chat_key=chat_key)
    if not rows:
        ui.label(view.say("chats.no_timers")).classes("nc-soft")
    with ui.element("div").classes("nc-list"):
        for row in rows:
            with ui.element("article").classes("nc-card"):
                ui.label(row.title or row.text[:80])
                about = (local_time(row.due), row.cron, row.state)
                ui.label(" · ".join(filter(None, about))).classes("nc-soft nc-small")
    ui.link(view.say("chats.to_timers"), target=link_to(f"{ROOT}/timers"))
