"""Draws the page of what the bot remembers: notes, summaries and documents. It also shows the links
between chats. Linked chats share their notes and documents."""

import base64
from collections.abc import Callable
from typing import Any

from nicegui import events, ui
from pydantic import SecretStr

from nekro_core.chat import ChatKey
from nekro_core.console.chat_chooser import choose_chat
from nekro_core.console.pages.chats import chat_address
from nekro_core.console.upload_button import upload_button
from nekro_core.console.view import View, link_to
from nekro_core.console.widgets import badge, confirm, empty, heading, local_time, size_text
from nekro_core.media.documents import MAX_BYTES
from nekro_core.operator.memory import RememberedChat
from nekro_core.operator.roles import AccessRole
from nekro_core.store import NoteRow, SummaryState
from nekro_core.store.knowledge_index import KnownFile
from nekro_core.system.errors import NekroError

Refresh = Callable[[], Any]
_MOST_CHATS = 200
_IMPORT_BYTES = 20 * 1024 * 1024
"""Maximum size of an import in bytes: enough for 20,000 notes of the maximum length."""


async def memory_page(view: View) -> None:
    """Draw the page."""
    ui.label(view.say("memory.lead")).classes("nc-lead")
    with ui.element("div").classes("nc-filters"):
        chat = await choose_chat(view, view.say("memory.chat"))
        words = ui.input(view.say("memory.words")).classes("nc-grow")
        words.props("outlined dense clearable debounce=250")
        ended = ui.checkbox(view.say("memory.with_ended"))

    @ui.refreshable
    async def show() -> None:
        if chat.value:
            key = ChatKey.parse(chat.value)
            await _draw_notes(view, key, words.value or "", show.refresh, ended=bool(ended.value))
            await _draw_summaries(view, key, show.refresh)
        else:
            await _draw_chats(view, chat, show.refresh)
        await _draw_documents(view, chat.value or "", show.refresh)

    for each in (chat, words, ended):
        each.on_value_change(show.refresh)
    await show()


async def _draw_chats(view: View, chosen: ui.select, refresh: Refresh) -> None:
    """Draw the chats about which the bot remembers something, and the links between these chats."""
    rows = await view.operator.memory.chats(view.actor)
    if not rows:
        empty(view, "memory.nothing")
    with ui.element("div").classes("nc-list"):
        for row in rows[:_MOST_CHATS]:
            _draw_chat(view, row, chosen, refresh)
        if view.may(AccessRole.OPERATOR):
            await _draw_new_link(view, refresh)
            _draw_transfer(view, refresh)


def _draw_chat(view: View, row: RememberedChat, chosen: ui.select, refresh: Refresh) -> None:
    key = str(row.chat_key)

    def choose() -> None:
        shown = chosen.options if isinstance(chosen.options, dict) else {}
        chosen.set_options({**shown, key: key}, value=key)

    with ui.element("article").classes("nc-card nc-row"):
        ui.link(key, link_to(chat_address(row.chat_key))).classes("nc-grow")
        if row.link:
            badge(view.say("memory.linked", name=row.link), "warn")
        counts = view.say("memory.counts", notes=row.notes, summaries=row.summaries)
        ui.label(counts).classes("nc-soft nc-small")
        ui.button(view.say("memory.open"), on_click=choose).props("flat dense no-caps")
        if row.link and view.may(AccessRole.OPERATOR):
            ui.button(
                view.say("memory.unlink"),
                on_click=lambda: view.perform(
                    view.operator.memory.unlink(view.actor, chat_keys=[row.chat_key]),
                    view.say("memory.unlinked"),
                    refresh=refresh,
                ),
            ).props("flat dense no-caps")


async def _draw_new_link(view: View, refresh: Refresh) -> None:
    area, actor = view.operator.memory, view.actor
    with ui.expansion(view.say("memory.new_link"), icon="link").classes("nc-card nc-expansion"):
        ui.label(view.say("memory.link_what")).classes("nc-soft")
        one = await choose_chat(view, view.say("memory.first_chat"))
        other = await choose_chat(view, view.say("memory.second_chat"))
        name = ui.input(view.say("memory.link_name")).props("outlined dense")

        async def link() -> None:
            keys = [each.value for each in (one, other) if each.value]
            given = {"chat_keys": keys, "name": name.value or ""}
            done = view.say("memory.link_done")
            await view.perform(area.link.invoke(actor, given), done, refresh=refresh)

        ui.button(view.say("memory.link"), on_click=link).props("unelevated no-caps")


def _draw_transfer(view: View, refresh: Refresh) -> None:
    """Draw the export of all notes, and the import."""
    area, actor = view.operator.memory, view.actor

    async def export() -> None:
        try:
            notes = await area.export_notes(actor)
        except NekroError as error:
            view.show_error(error)
            return
        ui.download.content(notes.lines, "notes.jsonl", "application/x-ndjson")

    async def take(given: events.UploadEventArguments) -> None:
        lines = (await given.file.read()).decode("utf-8", "replace")
        done = await view.perform(
            area.import_notes(actor, lines=SecretStr(lines)),
            view.say("memory.imported"),
            refresh=refresh,
        )
        if done is not None and done.refused:
            view.tell("\n".join(done.refused), bad=True)

    with ui.expansion(view.say("memory.transfer"), icon="swap_vert").classes(
        "nc-card nc-expansion"
    ):
        ui.button(view.say("memory.export"), on_click=export).props("outline no-caps")
        upload_button(view, view.say("memory.import"), take, max_bytes=_IMPORT_BYTES)


async def _draw_notes(
    view: View, key: ChatKey, words: str, refresh: Refresh, *, ended: bool
) -> None:
    heading(view.say("memory.notes"))
    notes = await view.operator.memory.notes(view.actor, chat_key=key, words=words, ended=ended)
    if not notes:
        ui.label(view.say("memory.no_notes")).classes("nc-soft")
    with ui.element("div").classes("nc-list"):
        for note in notes:
            _draw_note(view, key, note, refresh)
        if view.may(AccessRole.OPERATOR):
            _draw_new_note(view, key, refresh)


def _draw_note(view: View, key: ChatKey, note: NoteRow, refresh: Refresh) -> None:
    say = view.say
    with ui.element("article").classes("nc-card"):
        ui.label(note.text).classes("nc-text")
        about = f"{note.about_name} ({note.about_id})" if note.about_id else say("memory.of_chat")
        parts = [
            about,
            say(f"memory.kind_{note.kind.value}"),
            say("memory.since", time=local_time(note.since)),
        ]
        if note.said_by and note.said_by != note.about_id:
            parts.append(say("memory.said_by", who=note.said_by))
        if note.until:
            parts.append(say("memory.until", time=local_time(note.until)))
        if note.chat_key != key:
            parts.append(str(note.chat_key))
        ui.label(" · ".join(parts)).classes("nc-soft nc-small")
        if view.may(AccessRole.OPERATOR):
            with ui.element("div").classes("nc-row"):
                _draw_note_buttons(view, key, note, refresh)


def _draw_note_buttons(view: View, key: ChatKey, note: NoteRow, refresh: Refresh) -> None:
    area, actor, number = view.operator.memory, view.actor, note.note_id

    async def delete() -> None:
        asked = view.say("memory.delete_ask")
        if await confirm(view, asked, details=view.say("memory.delete_what")):
            await view.perform(
                area.delete_note(actor, chat_key=key, note_id=number),
                view.say("memory.deleted"),
                refresh=refresh,
            )

    async def edit() -> None:
        with ui.dialog() as dialog, ui.card().classes("nc-dialog"):
            ui.label(view.say("memory.edit")).classes("nc-dialog-title")
            text = ui.textarea(view.say("memory.text"), value=note.text)
            text.props("outlined dense").classes("nc-wide")
            with ui.row().classes("nc-dialog-buttons"):
                ui.button(view.say("frame.cancel"), on_click=lambda: dialog.submit(False)).props(
                    "flat no-caps"
                )
                ui.button(view.say("memory.save"), on_click=lambda: dialog.submit(True)).props(
                    "unelevated no-caps"
                )
        agreed = await dialog
        written = SecretStr(text.value or "")
        dialog.delete()
        if agreed:
            await view.perform(
                area.rewrite_note(actor, chat_key=key, note_id=number, text=written),
                view.say("memory.saved"),
                refresh=refresh,
            )

    async def switch() -> None:
        change = area.end_note if note.holds else area.hold_note
        await view.perform(
            change(actor, chat_key=key, note_id=number), view.say("memory.saved"), refresh=refresh
        )

    ui.button(view.say("memory.edit"), on_click=edit).props("flat dense no-caps")
    label = view.say("memory.end" if note.holds else "memory.hold")
    ui.button(label, on_click=switch).props("flat dense no-caps")
    ui.button(view.say("memory.delete"), on_click=delete).props("flat dense no-caps")


def _draw_new_note(view: View, key: ChatKey, refresh: Refresh) -> None:
    area, actor = view.operator.memory, view.actor
    with ui.expansion(view.say("memory.new"), icon="add").classes("nc-card nc-expansion"):
        text = ui.textarea(view.say("memory.text")).props("outlined dense").classes("nc-wide")
        about = ui.input(view.say("memory.about")).props("outlined dense")

        async def put() -> None:
            given = {
                "chat_key": str(key),
                "text": text.value or "",
                "about_id": about.value or "",
            }
            adding = area.add_note.invoke(actor, given)
            await view.perform(adding, view.say("memory.saved"), refresh=refresh)

        ui.button(view.say("memory.add"), on_click=put).props("unelevated no-caps")


async def _draw_summaries(view: View, key: ChatKey, refresh: Refresh) -> None:
    area, actor = view.operator.memory, view.actor
    heading(view.say("memory.summaries"))
    rows = await area.summaries(actor, chat_key=key)
    if not rows:
        ui.label(view.say("memory.no_summaries")).classes("nc-soft")
        return

    async def delete() -> None:
        asked = view.say("memory.delete_summaries_ask")
        if await confirm(view, asked, details=view.say("memory.delete_summaries_what")):
            await view.perform(
                area.delete_summaries(actor, chat_key=key),
                view.say("memory.summaries_deleted"),
                refresh=refresh,
            )

    with ui.element("div").classes("nc-list"):
        for row in rows:
            with ui.element("article").classes("nc-card"):
                made = row.state is SummaryState.MADE
                ui.label(row.text if made else view.say(f"memory.state_{row.state.value}")).classes(
                    "nc-text" if made else "nc-soft"
                )
                span = view.say(
                    "memory.span",
                    records=row.records,
                    begun=local_time(row.begun),
                    ended=local_time(row.ended),
                )
                ui.label(span).classes("nc-soft nc-small")
    if view.may(AccessRole.OPERATOR):
        ui.button(view.say("memory.delete_summaries"), on_click=delete).props("flat no-caps")


async def _draw_documents(view: View, chat_key: str, refresh: Refresh) -> None:
    heading(view.say("memory.documents"))
    ui.label(view.say("memory.documents_what")).classes("nc-lead")
    files = await view.operator.memory.documents(view.actor, all_chats=True)
    if not files:
        ui.label(view.say("memory.no_documents")).classes("nc-soft")
    with ui.element("div").classes("nc-list"):
        for file in files:
            _draw_document(view, file, refresh)
    if not view.may(AccessRole.OPERATOR):
        return

    async def put(given: events.UploadEventArguments) -> None:
        document = {
            "name": given.file.name,
            "content": base64.b64encode(await given.file.read()).decode(),
        }
        if chat_key:
            document["chat_key"] = chat_key
        await view.perform(
            view.operator.memory.put_document.invoke(view.actor, document),
            view.say("memory.document_put", name=given.file.name),
            refresh=refresh,
        )

    label = "memory.put_here" if chat_key else "memory.put"
    upload_button(view, view.say(label), put, max_bytes=MAX_BYTES)


def _draw_document(view: View, file: KnownFile, refresh: Refresh) -> None:
    async def delete() -> None:
        asked = view.say("memory.delete_document_ask", name=file.path)
        if await confirm(view, asked, details=view.say("memory.delete_document_what")):
            await view.perform(
                view.operator.memory.delete_document(view.actor, scope=file.scope, path=file.path),
                view.say("memory.document_deleted"),
                refresh=refresh,
            )

    with ui.element("article").classes("nc-card nc-row"):
        with ui.element("div").classes("nc-grow"):
            ui.label(f"{file.scope}/{file.path}")
            about = view.say("memory.pieces", count=file.pieces, size=size_text(file.size))
            ui.label(file.problem or about).classes("nc-soft nc-small")
        if file.problem:
            badge(view.say("memory.not_read"), "bad")
        elif file.cut:
            badge(view.say("memory.cut"), "warn")
        if view.may(AccessRole.OPERATOR):
            ui.button(view.say("memory.delete"), on_click=delete).props("flat dense no-caps")
