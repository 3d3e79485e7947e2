"""Draws one message of a chat: its parts with their media, and why the bot answered or not."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nicegui import ui

from nekro_core.agent.participation.verdict import TalkSign
from nekro_core.console.file_routes import medium_address
from nekro_core.console.view import ROOT, View, link_to
from nekro_core.console.widgets import badge, local_time, size_text
from nekro_core.delivery.markdown.html import html_from_markdown
from nekro_core.operator.chat_views import DecisionView, MediumView, MessageView
from nekro_core.operator.media_response import SHOWN
from nekro_core.operator.roles import AccessRole
from nekro_core.store import DecisionReason


def draw_message(view: View, message: MessageView) -> tuple[ui.element, ui.element]:
    """Draw a message. Returns its element, and the inner element that says why the bot answered
    the message or not."""
    kind = "" if message.author.value == "person" else f" nc-chat-line-{message.author.value}"
    with ui.element("article").classes(f"nc-chat-line{kind}") as line:
        if message.recalled:
            line.classes("nc-chat-gone")
        name = message.user_name or message.user_id
        who = (
            name if message.author.value == "person" else view.say(f"chats.{message.author.value}")
        )
        about = (who, message.role if message.role != "member" else "", local_time(message.time))
        ui.label(" · ".join(filter(None, about))).classes("nc-soft nc-small")
        with ui.element("div").classes("nc-chat-bubble") as bubble:
            if message.recalled:
                _draw_recalled(view, message, bubble)
            else:
                _draw_parts(view, message, message.segments, iter(message.media))
        unsent = message.author.value == "bot" and message.state.value != "sent"
        if message.recalled or unsent:
            with ui.element("div").classes("nc-row"):
                if message.recalled:
                    badge(view.say("chats.recalled"), "warn")
                if unsent:
                    badge(message.state.value, "warn")
        why = ui.element("div").classes("nc-chat-why nc-row")
        draw_decision(view, message.decision, why)
    return line, why


def _draw_recalled(view: View, message: MessageView, bubble: ui.element) -> None:
    """Say that a message was recalled. An operator can look at it, which is logged."""
    ui.label(view.say("chats.recalled_hidden")).classes("nc-soft")

    async def show() -> None:
        found = await view.perform(
            view.operator.chats.show_recalled(view.actor, seq=message.seq),
            view.say("chats.recalled_shown"),
        )
        if found is not None:
            bubble.clear()
            bubble.classes("nc-chat-looked-at")
            with bubble:
                _draw_parts(view, found, found.segments, iter(found.media))

    if view.may(AccessRole.OPERATOR):
        button = ui.button(view.say("chats.show_recalled"), on_click=show)
        button.props("flat dense no-caps")


def reason_text(view: View, reason: str, detail: str) -> str:
    """Return the sentence for a `nekro_core.store.DecisionReason`."""
    if reason in _SIGNED and detail:
        detail = _signs_text(view, detail)
        if reason == DecisionReason.NOT_ADDRESSED:
            return view.say("chats.why_not_addressed_because", detail=detail)
    if not detail and reason in NEED_DETAIL:
        return view.say(f"chats.why_{reason}_some")
    return view.say(f"chats.why_{reason}", detail=detail)


def _signs_text(view: View, detail: str) -> str:
    """Return a sentence that says how likely a message is meant for the bot, and why; see
    `nekro_core.agent.participation.verdict.FollowVerdict.detail`."""
    likely, *signs = detail.split()
    percent = f"{100 * float(likely):.0f}" if likely.replace(".", "", 1).isdigit() else "?"
    words = [view.say("chats.sign_likely", percent=percent)]
    words += [view.say(f"chats.sign_{each}") for each in signs if each in {*TalkSign}]
    return ", ".join(words)


def draw_decision(view: View, decision: DecisionView, why: ui.element) -> None:
    """Say why the bot answered a message, or why not."""
    why.clear()
    if not decision.reason:
        return
    with why:
        ui.label(reason_text(view, decision.reason, decision.detail)).classes("nc-lines")
        if decision.turn_id:
            ui.link(
                view.say("chats.turn", turn=decision.turn_id),
                target=link_to(f"{ROOT}/turns/{decision.turn_id}"),
            )


def _draw_parts(
    view: View,
    message: MessageView,
    parts: Sequence[Mapping[str, Any]],
    media: Iterator[MediumView],
) -> None:
    if any(each["type"] in {"notice", "unknown"} for each in parts):
        ui.label(message.text).classes("nc-text")
        return
    text = ""
    for part in parts:
        match part["type"]:
            case "text" if html := _html_of(part):
                if text:
                    ui.label(text).classes("nc-text")
                    text = ""
                # The HTML is made from Markdown, with a fixed list of tags and attributes.
                ui.html(html, sanitize=False).classes("nc-text nc-markdown")
                continue
            case "text":
                text += part["text"]
                continue
            case "mention":
                text += f"@{part.get('name') or part['user_id']} "
                continue
        if text:
            ui.label(text).classes("nc-text")
            text = ""
        match part["type"]:
            case "reply":
                ui.label(f"↩ {part.get('text') or part['message_id']}").classes("nc-soft nc-small")
            case "forward":
                for each in part["messages"]:
                    ui.label(f"{each['sender_name']}:").classes("nc-soft nc-small")
                    _draw_parts(view, message, each["segments"], media)
            case kind:
                medium = next(media, None)
                if medium is not None:
                    _draw_medium(view, message.seq, kind, medium)
                if part.get("text"):
                    ui.label(part["text"]).classes("nc-text nc-soft")
    if text:
        ui.label(text).classes("nc-text")


def _html_of(part: Mapping[str, Any]) -> str:
    return html_from_markdown(part["text"]) if part.get("markdown") else ""


def _draw_medium(view: View, seq: int, kind: str, medium: MediumView) -> None:
    name = medium.name or view.say(f"chats.medium_{kind}")
    if medium.problem:
        told = view.say("chats.no_copy", name=name, why=medium.problem)
        ui.label(told).classes("nc-soft nc-lines")
        return
    address = medium_address(seq, medium.number)
    tag = {"image": "img", "voice": "audio", "video": "video"}.get(kind, "")
    if medium.mime not in SHOWN or not medium.mime.startswith(f"{_MIME.get(tag, '-')}/"):
        ui.link(f"{name} ({size_text(medium.size)})", target=link_to(address)).classes("nc-lines")
        return
    shown = ui.element(tag).classes("nc-chat-picture" if tag == "img" else "nc-chat-medium")
    shown.props["src"] = address
    if tag == "img":
        shown.props["alt"] = name
        shown.props["loading"] = "lazy"
    else:
        shown.props["controls"] = True
        shown.props["preload"] = "none"
        shown.props["aria-label"] = name


NEED_DETAIL = frozenset({"named", "forced", "goes_on", "unasked"})
"""Reasons whose sentence contains the detail of the decision. If the message of a turn was erased,
the turn does not have this detail."""
_SIGNED = frozenset({DecisionReason.GOES_ON, DecisionReason.NOT_ADDRESSED})
"""Reasons whose detail contains values of `TalkSign`."""
_MIME = {"img": "image", "audio": "audio", "video": "video"}
