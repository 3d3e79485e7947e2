"""Draws the members and the timers of a chat."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from nekro_core.chat import ChatKey
from nekro_core.console.chat_kept import erase_person
from nekro_core.console.pages.timers import draw_timer
from nekro_core.console.view import ROOT, View, link_to
from nekro_core.console.widgets import badge
from nekro_core.operator.chat_views import MemberView
from nekro_core.operator.errors import InvalidParameters
from nekro_core.operator.roles import AccessRole
from nekro_core.system.errors import NekroError

_ROLES = ("owner", "admin")
QUOTAS = ("turns", "tokens", "money")


async def draw_members(view: View, chat_key: ChatKey) -> None:
    """Draw the people of a chat with their roles and what they used."""

    @ui.refreshable
    async def show() -> None:
        members = await view.operator.chats.members(view.actor, chat_key=chat_key)
        if not members:
            ui.label(view.say("chats.no_members")).classes("nc-soft")
        with ui.element("div").classes("nc-list"):
            for each in members:
                _draw_member(view, chat_key, each, show.refresh)

    await show()


def _draw_member(
    view: View, chat_key: ChatKey, member: MemberView, refresh: Callable[[], Any]
) -> None:
    async def erase() -> None:
        if await erase_person(view, chat_key, member.user_id):
            refresh()

    with ui.element("article").classes("nc-card"):
        with ui.element("div").classes("nc-row"):
            ui.label(member.name or member.user_id).classes("nc-grow nc-text")
            if member.role in _ROLES:
                badge(view.say(f"chats.role_{member.role}"))
        use = view.say(
            "chats.member_use",
            user_id=member.user_id,
            messages=member.messages,
            turns=member.day.turns,
            tokens=member.day.prompt_tokens + member.day.completion_tokens,
            cost=f"{member.day.cost:.4f}",
            ever=f"{member.ever.cost:.4f}",
        )
        ui.label(use).classes("nc-soft nc-small nc-lines")
        if not view.may(AccessRole.OPERATOR) or not member.user_id:
            return
        with ui.element("div").classes("nc-row"):
            ui.button(
                view.say("chats.quota_of_person"),
                on_click=lambda: _draw_quota(view, chat_key, member),
            ).props("flat dense no-caps")
            ui.button(view.say("chats.erase"), on_click=erase).props(
                "flat dense no-caps color=negative"
            )


async def _draw_quota(view: View, chat_key: ChatKey, member: MemberView) -> None:
    """Open a dialog in which the quota of a person is changed."""
    area, say = view.operator.chats, view.say
    place = (await area.one(view.actor, chat_key=chat_key)).platform
    now = await area.person_quota(view.actor, place=place, user_id=member.user_id)
    with ui.dialog() as dialog, ui.card().classes("nc-dialog"):
        ui.label(f"{say('chats.quota_of_person')}: {member.name or member.user_id}").classes(
            "nc-dialog-title"
        )
        ui.label(say("chats.quota_lead")).classes("nc-soft")
        boxes = {}
        for name in QUOTAS:
            box = ui.number(say(f"chats.quota_{name}"), value=now.get(name))
            boxes[name] = box.props("outlined dense clearable").classes("nc-wide")

        def refused(error: NekroError) -> None:
            problems = error.problems if isinstance(error, InvalidParameters) else {}
            for name, problem in problems.items():
                if box := boxes.get(name.rpartition(".")[2]):
                    box.error = problem
            if not any(box.error for box in boxes.values()):
                view.show_error(error)

        async def save() -> None:
            quota = {name: box.value for name, box in boxes.items() if box.value is not None}
            given = {"place": place, "user_id": member.user_id, "quota": quota or None}
            for box in boxes.values():
                box.error = None
            saved = await view.perform(
                area.set_person_quota.invoke(view.actor, given),
                say("chats.policy_set"),
                refused=refused,
            )
            if saved is not None:
                dialog.close()

        with ui.row().classes("nc-dialog-buttons"):
            ui.button(say("frame.cancel"), on_click=dialog.close).props("flat no-caps")
            ui.button(say("chats.save"), on_click=save).props("unelevated no-caps")
    dialog.on("hide", dialog.delete)
    dialog.open()


async def draw_timers(view: View, chat_key: ChatKey) -> None:
    """Draw the timers of a chat."""

    @ui.refreshable
    async def show() -> None:
        rows = await view.operator.timers.all(view.actor, chat_key=chat_key)
        if not rows:
            ui.label(view.say("chats.no_timers")).classes("nc-soft")
        with ui.element("div").classes("nc-list"):
            for row in rows:
                draw_timer(view, row, show.refresh)

    await show()
    ui.link(view.say("chats.to_timers"), target=link_to(f"{ROOT}/timers"))
