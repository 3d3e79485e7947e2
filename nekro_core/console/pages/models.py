"""Draws the page of language models."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from nekro_core.console.embedded_view import draw_embedded
from nekro_core.console.model_form import draw_model_form
from nekro_core.console.model_roles import draw_model_roles
from nekro_core.console.model_test import draw_model_test
from nekro_core.console.view import View
from nekro_core.console.widgets import badge, confirm, heading
from nekro_core.operator.models import DEFAULT, ModelView
from nekro_core.operator.roles import AccessRole

_READ_AGAIN_S = 4.0


async def models_page(view: View) -> None:
    """Draw the page."""
    area, actor = view.operator.models, view.actor
    ui.label(view.say("models.lead")).classes("nc-lead")
    shown: list[ModelView] = []
    cards: dict[str, _ModelCard] = {}
    place = ui.element("div").classes("nc-list")

    async def refresh() -> None:
        """Draw what has changed. An open form stays as it is."""
        models = await area.all(actor)
        if models == shown:
            return
        shown[:] = models
        names = [each.group for each in models]
        for name in [*cards]:
            if name not in names:
                cards.pop(name).delete()
        with place:
            for each in models:
                if each.group in cards:
                    cards[each.group].draw(each)
                else:
                    cards[each.group] = _ModelCard(view, each, refresh)

    await refresh()
    if view.may(AccessRole.OPERATOR):
        await _draw_new(view, refresh)
    ui.timer(_READ_AGAIN_S, refresh, immediate=False)
    await draw_model_roles(view)
    heading(view.say("models.embedded"))
    await draw_embedded(view)


async def _draw_new(view: View, refresh: Callable[[], Any]) -> None:
    place = ui.element("div").classes("nc-wide nc-models-new")

    async def begin() -> None:
        place.clear()
        with place, ui.element("section").classes("nc-card"):
            await draw_model_form(view, None, end, refresh)

    def end() -> None:
        place.clear()
        with place:
            ui.button(view.say("models.add"), icon="add", on_click=begin).props("outline no-caps")

    end()


class _ModelCard:
    """One model, with its test and its form."""

    def __init__(self, view: View, model: ModelView, refresh: Callable[[], Any]) -> None:
        self._view, self._model, self._refresh = view, model, refresh
        self._card = ui.element("article").classes("nc-card")
        with self._card:
            self._head = ui.element("div")
            self._more = ui.element("div").classes("nc-wide")
        self._test: Callable[[], Any] = lambda: None
        self.draw(model)

    def delete(self) -> None:
        """Remove the card."""
        self._card.delete()

    def draw(self, model: ModelView) -> None:
        """Draw the present settings."""
        self._model = model
        view, fields = self._view, model.fields
        self._head.clear()
        with self._head:
            with ui.element("div").classes("nc-row"):
                default = model.group == DEFAULT
                title = view.say("models.default") if default else model.group
                ui.label(title).classes("nc-models-name").props('role="heading" aria-level="2"')
                if fields.get("type", "chat") != "chat":
                    badge(view.say(f"models.type_{fields['type']}"))
                if model.embedded:
                    badge(view.say("models.is_embedded"))
                elif model.provider:
                    badge(model.provider)
                if model.has_key:
                    badge(view.say("models.key_set"), "good")
            if model.embedded:
                ui.label(view.say("models.embedded_answers")).classes("nc-soft")
            else:
                ui.label(str(fields.get("model", ""))).classes("nc-text")
                ui.label(str(fields.get("base_url", ""))).classes("nc-soft nc-small nc-lines")
                ui.label(self._figures()).classes("nc-soft nc-small")
            if view.may(AccessRole.OPERATOR):
                self._draw_buttons()

    def _figures(self) -> str:
        view, model, price = self._view, self._model, self._model.price.price
        told = view.say("models.price_unknown")
        if price is not None:
            told = view.say(
                f"models.price_{model.price.source}",
                prompt=f"{price.prompt:g}",
                completion=f"{price.completion:g}",
            )
        if model.price.day is not None:
            when = view.say(
                "models.published_as_of", edition=model.price.edition, day=f"{model.price.day}"
            )
            told = f"{told} ({when})"
        context = "models.context_published" if model.context_published else "models.context"
        parts = [told, view.say(context, tokens=f"{model.context_tokens:,}")]
        parts += [
            view.say(f"models.{name}") for name in ("vision", "audio") if model.fields.get(name)
        ]
        return " · ".join(parts)

    def _draw_buttons(self) -> None:
        view, model = self._view, self._model
        with ui.element("div").classes("nc-row"):
            if not model.embedded:
                ui.button(view.say("models.test"), icon="speed", on_click=self._begin_test).props(
                    "flat dense no-caps"
                )
            key = "models.choose" if model.embedded else "models.change"
            ui.button(view.say(key), icon="edit", on_click=self._begin_change).props(
                "flat dense no-caps"
            )
            if not model.embedded:
                ui.button(view.say("models.remove"), on_click=self._remove).props(
                    "flat dense no-caps"
                )

    async def _begin_test(self) -> None:
        self._more.clear()
        with self._more:
            test = draw_model_test(self._view)
        await test.run(lambda: {"group": self._model.group})

    async def _begin_change(self) -> None:
        self._more.clear()
        with self._more:
            await draw_model_form(self._view, self._model, self._more.clear, self._refresh)

    async def _remove(self) -> None:
        view, group = self._view, self._model.group
        details = "models.remove_default" if group == DEFAULT else "models.remove_group"
        with self._card:  # the dialog stays if the head is drawn anew
            agreed = await confirm(
                view, view.say("models.remove_ask", name=group), details=view.say(details)
            )
        if agreed:
            await view.perform(
                view.operator.models.remove(view.actor, group=group),
                view.say("models.removed"),
                refresh=self._refresh,
            )
