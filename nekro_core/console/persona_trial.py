"""Tries a persona on a stored conversation of a chat."""

from collections.abc import Callable

import anyio
from nicegui import ui

from nekro_core.console.chat_chooser import choose_chat
from nekro_core.console.view import View
from nekro_core.operator.errors import OperatorError
from nekro_core.operator.personas import PersonaReply


async def draw_trial(view: View, text: Callable[[], str]) -> None:
    """Draw the trial into the current element of the page.

    Args:
        view: The opened page.
        text: Returns the text of the persona as it is entered now. It need not be saved.
    """
    with ui.expansion(view.say("personas.try"), icon="science").classes("nc-expansion"):
        ui.label(view.say("personas.try_hint")).classes("nc-soft nc-small")
        chat = await choose_chat(view, view.say("personas.chat"))
        begin = ui.button(view.say("personas.try_begin")).props("outline no-caps")
        begin.on_click(_Trial(view, text, chat).run)


class _Trial:
    def __init__(self, view: View, text: Callable[[], str], chat: ui.select) -> None:
        self._view, self._text, self._chat = view, text, chat
        self._place = ui.element("div").classes("nc-wide").props('role="status"')
        self._scope: anyio.CancelScope | None = None

    async def run(self) -> None:
        view = self._view
        if not self._chat.value:
            view.show_error(OperatorError(view.say("personas.choose_chat")))
            return
        self._cancel()
        self._place.clear()
        with self._place, ui.element("div").classes("nc-row"):
            ui.spinner(size="22px")
            ui.label(view.say("personas.trying")).classes("nc-grow")
            ui.button(view.say("frame.cancel"), on_click=self._cancel).props("flat dense no-caps")
        reply: PersonaReply | None = None
        with anyio.CancelScope() as scope:
            self._scope = scope
            reply = await view.perform(
                view.operator.personas.try_out.invoke(
                    view.actor, {"chat_key": self._chat.value, "text": self._text()}
                ),
                view.say("personas.tried"),
            )
        if self._scope is not scope:  # a later trial has begun
            return
        self._place.clear()
        if reply is not None:
            with self._place:
                self._draw(reply)

    def _cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()

    def _draw(self, reply: PersonaReply) -> None:
        view = self._view
        told = [reply.model, f"{reply.seconds:.1f} s"]
        if reply.usage is not None:
            tokens = reply.usage.prompt_tokens + reply.usage.completion_tokens
            told.append(view.say("personas.tokens", tokens=tokens))
        ui.label(reply.reply or view.say("personas.no_reply")).classes("nc-code")
        ui.label(" · ".join(told)).classes("nc-soft nc-small")
