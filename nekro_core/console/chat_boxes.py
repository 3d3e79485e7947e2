"""Draws the boxes of a chat with their files."""

import base64
from collections.abc import Callable
from typing import Any

from nicegui import events, ui

from nekro_core.chat import ChatKey
from nekro_core.console.file_routes import box_file_address
from nekro_core.console.upload_button import upload_button
from nekro_core.console.view import View, link_to
from nekro_core.console.widgets import badge, confirm
from nekro_core.operator.boxes import MAX_FILE_BYTES, BoxView
from nekro_core.operator.roles import AccessRole
from nekro_core.system.errors import NekroError


async def draw_boxes(view: View, chat_key: ChatKey) -> None:
    """Draw the boxes."""

    @ui.refreshable
    async def show() -> None:
        boxes = await view.operator.boxes.of_chat(view.actor, chat_key=chat_key)
        if not boxes:
            ui.label(view.say("chats.no_boxes")).classes("nc-soft")
        with ui.element("div").classes("nc-list"):
            for each in boxes:
                _draw_box(view, chat_key, each, show.refresh)

    await show()
    ui.button(view.say("chats.read_again"), on_click=show.refresh).props("flat dense no-caps")


def _draw_box(view: View, chat_key: ChatKey, box: BoxView, refresh: Callable[[], Any]) -> None:
    area, actor = view.operator.boxes, view.actor

    async def sleep() -> None:
        await view.perform(
            area.sleep(actor, chat_key=chat_key, box=box.name),
            view.say("chats.box_slept"),
            refresh=refresh,
        )

    async def end() -> None:
        if await confirm(view, view.say("chats.box_end_ask", name=box.name)):
            await view.perform(
                area.end(actor, chat_key=chat_key, box=box.name),
                view.say("chats.box_ended"),
                refresh=refresh,
            )

    async def list_files() -> None:
        try:
            found = await area.files(actor, chat_key=chat_key, box=box.name)
        except NekroError as error:
            view.show_error(error)
            return
        files.clear()
        with files:
            if not found.paths:
                ui.label(view.say("chats.no_files")).classes("nc-soft")
            for path in found.paths:
                ui.link(path, target=link_to(box_file_address(chat_key, box.name, path)))
            if found.truncated:
                ui.label(view.say("chats.more_files")).classes("nc-soft")

    async def put(given: events.UploadEventArguments) -> None:
        data = await given.file.read()
        await view.perform(
            area.put_file.invoke(
                actor,
                {
                    "chat_key": str(chat_key),
                    "box": box.name,
                    "path": given.file.name,
                    "content": base64.b64encode(data).decode(),
                },
            ),
            view.say("chats.file_put", name=given.file.name),
            refresh=list_files,
        )

    with ui.element("article").classes("nc-card"):
        with ui.element("div").classes("nc-row"):
            ui.label(f"{box.name} ({box.image})").classes("nc-grow")
            state = "awake" if box.awake else "asleep"
            badge(view.say(f"chats.box_{state}"), "good" if box.awake else "")
        if not view.may(AccessRole.OPERATOR):
            return
        with ui.element("div").classes("nc-row"):
            ui.button(view.say("chats.files"), on_click=list_files).props("flat dense no-caps")
            if box.awake and not box.in_use:
                ui.button(view.say("chats.box_sleep"), on_click=sleep).props("flat dense no-caps")
            ui.button(view.say("chats.box_end"), on_click=end).props("flat dense no-caps")
        files = ui.element("div").classes("nc-list nc-small nc-lines")
        upload_button(view, view.say("chats.upload"), put, max_bytes=MAX_FILE_BYTES)
