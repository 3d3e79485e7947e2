"""Draws how much data the bot keeps about a chat, and the dialog that erases a person."""

from nicegui import ui

from nekro_core.chat import ChatKey, ChatKind
from nekro_core.console.view import View
from nekro_core.console.widgets import confirm, heading, local_time, size_text
from nekro_core.operator.roles import AccessRole
from nekro_core.system.errors import NekroError


async def draw_kept(view: View, chat_key: ChatKey) -> None:
    """Draw the counts."""

    @ui.refreshable
    async def show() -> None:
        kept = await view.operator.erasure.kept(view.actor, chat_key=chat_key)
        rows, say = kept.rows, view.say
        facts = [
            ("kept_messages", f"{rows.messages:,}", rows.since),
            ("kept_turns", f"{rows.turns:,}", rows.turns_since),
            ("kept_media", f"{kept.media:,} · {size_text(kept.media_bytes)}", 0.0),
            ("kept_prompts", f"{rows.prompt_parts:,} · {size_text(rows.prompt_bytes)}", 0.0),
            ("kept_boxes", f"{kept.boxes:,} · {size_text(kept.box_bytes)}", 0.0),
            ("kept_timers", f"{kept.timers:,}", 0.0),
            ("kept_plugins", f"{rows.plugin_values:,} · {size_text(rows.plugin_chars)}", 0.0),
        ]
        with ui.element("dl").classes("nc-turn-facts"):
            for key, value, since in facts:
                with ui.element("dt"):
                    ui.label(say(f"chats.{key}"))
                with ui.element("dd"):
                    told = say("chats.since", time=local_time(since)) if since else ""
                    ui.label(" · ".join(filter(None, (value, told))))

    await show()
    ui.button(view.say("chats.read_again"), on_click=show.refresh).props("flat dense no-caps")
    heading(view.say("chats.erase_title"))
    private = chat_key.kind is ChatKind.PRIVATE
    ui.label(view.say("chats.erase_private" if private else "chats.erase_group")).classes("nc-soft")
    if private and view.may(AccessRole.OPERATOR):
        ui.button(
            view.say("chats.erase"),
            on_click=lambda: erase_person(view, chat_key, chat_key.native_id),
        ).props("flat no-caps color=negative")


async def erase_person(view: View, chat_key: ChatKey, user_id: str) -> bool:
    """Show what would be deleted, ask, and then erase a person.

    Args:
        view: The opened page.
        chat_key: A chat of the person's platform.
        user_id: The platform's id of the person.

    Returns:
        Whether the person was erased.
    """
    area, say = view.operator.erasure, view.say
    try:
        plan = await area.person(view.actor, chat_key=chat_key, user_id=user_id)
    except NekroError as error:
        view.show_error(error)
        return False
    details = say(
        "chats.erase_details",
        messages=plan.messages,
        chats=plan.chats,
        private=plan.private_chats,
        turns=plan.turns,
        files=plan.files,
        boxes=plan.boxes,
        timers=plan.timers,
    )
    asked = say("chats.erase_ask", user_id=user_id)
    if not await confirm(view, asked, details=details, button=say("chats.erase_title")):
        return False
    given = {"chat_key": str(chat_key), "user_id": user_id}
    report = await view.perform(area.erase_person.invoke(view.actor, given), say("chats.erased"))
    for left in report.left if report is not None else ():
        view.tell(say("chats.erase_left", what=left), bad=True)
    return report is not None
