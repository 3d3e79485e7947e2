"""Draws the form of a language model: provider, address, key, model, prices and limits."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement
from nicegui.elements.mixins.value_element import ValueElement

from nekro_core.console.model_test import draw_model_test
from nekro_core.console.view import View
from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.known_prices import KnownModel
from nekro_core.llm.probe import EndpointReport
from nekro_core.llm.providers import ProviderPreset, preset_of
from nekro_core.llm.wire_format import ModelProtocol
from nekro_core.operator.errors import ChangedMeanwhile, InvalidParameters
from nekro_core.operator.models import DEFAULT, ModelView
from nekro_core.system.errors import NekroError

_SWITCHES = ("vision", "audio", "grammar", "published_figures")
_PRICES = ("prompt_price", "cached_price", "completion_price")
_TIMES = ("connect_s", "first_token_s", "between_tokens_s", "total_s", "retries")
_GROUP_ONLY = ("temperature", "top_p")
_WHOLE = ("context_tokens", "retries")
_MOST_OFFERED = 300
"""Maximum number of models that the list offers. Some endpoints have thousands of models."""


async def draw_model_form(
    view: View, model: ModelView | None, close: Callable[[], Any], refresh: Callable[[], Any]
) -> None:
    """Draw the form into the current element of the page.

    Args:
        view: The opened page.
        model: The model to change; None for a new model.
        close: Removes the form.
        refresh: Draws the list of models anew.
    """
    presets = await view.operator.models.presets(view.actor)
    await _ModelForm(view, model, presets, close, refresh).look_up()


class _ModelForm:
    """The form of a model. ``model`` is None for a new model."""

    def __init__(
        self,
        view: View,
        model: ModelView | None,
        presets: list[ProviderPreset],
        close: Callable[[], Any],
        refresh: Callable[[], Any],
    ) -> None:
        self._view, self._model = view, model
        self._close, self._refresh = close, refresh
        self._presets = {each.key: each for each in presets}
        self._saved: Mapping[str, Any] = model.fields if model else {}
        self._default = model is not None and model.group == DEFAULT
        self._inputs: dict[str, ValueElement[Any]] = {}
        self._known: KnownModel | None = None
        self._draw()

    async def look_up(self) -> None:
        """Show what is published about the model that is entered."""
        name = str(self._inputs["model"].value or "").strip()
        self._published.clear()
        self._known = None
        if name:
            address = str(self._inputs["base_url"].value or "")
            area, actor = self._view.operator.models, self._view.actor
            self._known = await area.known(actor, model=name[:200], base_url=address)
        with self._published:
            self._draw_published()

    def _draw(self) -> None:
        view, saved = self._view, self._saved
        with ui.element("div").classes("nc-models-form"):
            if self._model is None:
                self._text("group", "").props('autocomplete="off"')
            options = {key: each.name for key, each in self._presets.items()}
            present = preset_of(str(saved.get("base_url", "")))
            self._preset = ui.select(
                options,
                label=view.say("models.provider"),
                value=present.key if present else None,
                on_change=self._use_preset,
                clearable=True,
            ).props("outlined dense options-dense")
            self._links = ui.element("div").classes("nc-row nc-small")
            self._text("base_url", saved.get("base_url", ""))
            has_key = self._model is not None and self._model.has_key
            key = ui.input(view.say("models.field_api_key"), password=True)
            key.props('outlined dense autocomplete="new-password"')
            if has_key:
                key.props("stack-label").props["placeholder"] = view.say("models.key_kept")
            self._inputs["api_key"] = key
            self._text("model", saved.get("model", ""))
            self._examples = ui.element("div").classes("nc-row nc-small")
            with ui.element("div").classes("nc-row"):
                for name in _SWITCHES:
                    switch = ui.switch(
                        view.say(f"models.field_{name}"), value=_switched_on(saved, name)
                    )
                    self._inputs[name] = switch
            self._published = ui.element("div").classes("nc-models-known")
            with ui.element("div").classes("nc-models-columns"):
                for name in (*_PRICES, "context_tokens"):
                    self._number(name)
            ui.label(view.say("models.price_hint")).classes("nc-soft nc-small")
            self._draw_advanced()
            self._notice = ui.label("").classes("nc-bad nc-lines").props('role="alert"')
            self._test = draw_model_test(view, self._show_refusal, self._offer)
            with ui.element("div").classes("nc-row"):
                ui.button(view.say("models.save"), on_click=self._save).props("unelevated no-caps")
                ui.button(
                    view.say("models.test"),
                    icon="speed",
                    on_click=lambda: self._test.run(self._to_test),
                ).props("outline no-caps")
                ui.button(view.say("frame.cancel"), on_click=self._end).props("flat no-caps")
        self._show_preset(present)
        for name in ("base_url", "model"):
            self._inputs[name].on("blur", self.look_up)

    def _draw_advanced(self) -> None:
        view, saved = self._view, self._saved
        with ui.expansion(view.say("models.advanced")).classes("nc-expansion"):
            if not self._default:
                kinds = {each: view.say(f"models.type_{each}") for each in _kinds()}
                kind = ui.select(
                    kinds, label=view.say("models.field_type"), value=saved.get("type", "chat")
                )
                self._inputs["type"] = kind.props("outlined dense").classes("nc-wide")
            protocols = {
                each.value: view.say(f"models.protocol_{each.value}") for each in ModelProtocol
            }
            protocol = ui.select(
                protocols,
                label=view.say("models.field_protocol"),
                value=str(saved.get("protocol", ModelProtocol.CHAT)),
            )
            self._inputs["protocol"] = protocol.props("outlined dense").classes("nc-wide")
            self._text("proxy", saved.get("proxy", "")).classes("nc-wide")
            with ui.element("div").classes("nc-models-columns nc-wide"):
                for name in (*_TIMES, *(() if self._default else _GROUP_ONLY)):
                    self._number(name)
            body = json.dumps(saved["extra_body"], indent=1) if saved.get("extra_body") else ""
            area = ui.textarea(view.say("models.field_extra_body"), value=body)
            self._inputs["extra_body"] = area.props("outlined dense autogrow").classes("nc-wide")

    def _text(self, name: str, value: Any) -> ui.input:
        field = ui.input(self._view.say(f"models.field_{name}"), value=str(value or ""))
        field.props("outlined dense spellcheck=false")
        self._inputs[name] = field
        return field

    def _number(self, name: str) -> None:
        field = ui.number(self._view.say(f"models.field_{name}"), value=self._saved.get(name))
        field.props("outlined dense")
        default = ModelGroupSettings.model_fields[name].default
        if default is not None and name not in _PRICES:
            field.props("stack-label").props["placeholder"] = f"{default:g}"
        self._inputs[name] = field

    async def _use_preset(self) -> None:
        preset = self._presets.get(self._preset.value or "")
        self._show_preset(preset)
        if preset is None:
            return
        self._inputs["base_url"].value = preset.base_url
        self._inputs["model"].value = preset.models[0] if preset.models else ""
        self._inputs["protocol"].value = preset.protocol.value
        self._inputs["vision"].value = preset.vision
        self._inputs["grammar"].value = preset.grammar
        if self._model is None and not self._inputs["group"].value:
            self._inputs["group"].value = preset.key
        await self.look_up()

    def _show_preset(self, preset: ProviderPreset | None) -> None:
        self._links.clear()
        if preset is not None:
            with self._links:
                for key, address in (("models.get_key", preset.keys), ("models.docs", preset.docs)):
                    if address:
                        ui.link(self._view.say(key), address, new_tab=True).props(
                            'rel="noopener noreferrer"'
                        )
        self._show_examples(preset.models if preset else ())

    def _show_examples(self, names: tuple[str, ...]) -> None:
        async def choose(name: str) -> None:
            self._inputs["model"].value = name
            await self.look_up()

        self._examples.clear()
        with self._examples:
            for name in names:
                ui.button(name, on_click=lambda name=name: choose(name)).props(
                    "outline dense no-caps size=sm"
                )

    def _offer(self, report: EndpointReport) -> None:
        """If the tested model did not answer, offer the models that the endpoint listed."""
        if not report.models or report.usable:
            return

        async def choose(event: Any) -> None:
            self._inputs["model"].value = event.value
            await self.look_up()

        self._examples.clear()
        with self._examples:
            names = [*report.models[:_MOST_OFFERED]]
            offered = ui.select(
                names, label=self._view.say("models.offered"), with_input=True, on_change=choose
            )
            offered.props("outlined dense").classes("nc-wide")

    def _draw_published(self) -> None:
        view, known = self._view, self._known
        if known is None:
            if self._inputs["model"].value:
                ui.label(view.say("models.unpublished")).classes("nc-soft nc-small")
            return
        price, tokens = known.price, known.context_tokens
        told = [view.say("models.published", provider=known.provider, model=known.model)]
        if price is not None:
            told.append(
                view.say(
                    "models.published_price",
                    prompt=f"{price.prompt:g}",
                    cached="–" if price.cached is None else f"{price.cached:g}",
                    completion=f"{price.completion:g}",
                )
            )
        if tokens is not None:
            told.append(view.say("models.context", tokens=f"{tokens:,}"))
        ui.label(" · ".join(told)).classes("nc-small nc-grow")

        def use() -> None:
            if tokens is not None:
                self._inputs["context_tokens"].value = tokens
            if price is not None:
                figures = (price.prompt, price.cached, price.completion)
                for name, figure in zip(_PRICES, figures, strict=True):
                    self._inputs[name].value = figure

        if tokens is not None or price is not None:
            ui.button(view.say("models.use_figures"), on_click=use).props("flat dense no-caps")

    def _changes(self) -> dict[str, Any] | None:
        """Return the settings that differ from the saved settings; None if an entered value cannot
        be read."""
        self._clear_problems()
        changes: dict[str, Any] = {}
        for name, element in self._inputs.items():
            if name in ("group", "api_key"):
                continue
            value = element.value
            if name == "extra_body":
                try:
                    value = json.loads(value) if (value or "").strip() else None
                except (ValueError, RecursionError) as error:
                    self._show({"fields.extra_body": self._view.say("form.bad_json", error=error)})
                    return None
            elif isinstance(value, str):
                value = value.strip() or None
            elif name in _WHOLE and isinstance(value, float) and value.is_integer():
                value = int(value)
            if name in self._saved:
                if value != self._saved[name]:
                    changes[name] = value
            elif value is not None and (
                # Send a price or context size even if it equals the default: an entered value takes
                # precedence over the published value.
                name in (*_PRICES, "context_tokens")
                or value != ModelGroupSettings.model_fields[name].default
            ):
                changes[name] = value
        return changes

    def _parameters(self) -> dict[str, Any] | None:
        changes = self._changes()
        if changes is None:
            return None
        key = str(self._inputs["api_key"].value or "").strip()
        return {"fields": changes, **({"api_key": key} if key else {})}

    def _to_test(self) -> dict[str, Any] | None:
        given = self._parameters()
        if given is not None and self._model is not None:
            given["group"] = self._model.group
        return given

    async def _save(self) -> None:
        given = self._parameters()
        if given is None:
            return
        view, area = self._view, self._view.operator.models
        group = self._model.group if self._model else str(self._inputs["group"].value or "").strip()
        saved = await view.perform(
            area.put.invoke(view.actor, {"group": group, "expected": dict(self._saved), **given}),
            view.say("models.saved"),
            refresh=self._refresh,
            refused=self._show_refusal,
        )
        if saved is not None:
            self._end()

    def _end(self) -> None:
        self._test.cancel()
        self._close()

    def _show_refusal(self, error: NekroError) -> None:
        if isinstance(error, InvalidParameters):
            self._show(error.problems)
        elif isinstance(error, ChangedMeanwhile):
            self._notice.text = f"{error}\n{self._view.say('models.changed_meanwhile')}"
        else:
            self._notice.text = str(error)

    def _show(self, problems: Mapping[str, str]) -> None:
        """Show each problem at its field, and problems without a field below the form."""
        others = []
        for place, text in problems.items():
            name = place.removeprefix("fields.").partition(".")[0]
            element = self._inputs.get(name)
            if isinstance(element, ValidationElement):
                element.error = text
            else:
                others.append(f"{place}: {text}")
        self._notice.text = "\n".join(others)

    def _clear_problems(self) -> None:
        self._notice.text = ""
        for element in self._inputs.values():
            if isinstance(element, ValidationElement):
                element.error = None


def _kinds() -> tuple[str, ...]:
    schema = ModelGroupSettings.model_json_schema()["properties"]["type"]
    return tuple(schema["enum"])


def _switched_on(saved: Mapping[str, Any], name: str) -> bool:
    return bool(saved.get(name, ModelGroupSettings.model_fields[name].default))
