"""Draws the roles of models: which models each role has, in which order they are asked, and which
of them cool down."""

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.widgets import badge, heading
from nekro_core.llm.breaker import BreakerState
from nekro_core.operator.model_roles import RoleModelView, RoleView
from nekro_core.operator.models import DEFAULT
from nekro_core.operator.roles import AccessRole

_READ_AGAIN_S = 4.0
_EMBEDDED = "embedded"


async def draw_model_roles(view: View) -> None:
    """Draw the list into the current element of the page. The list shows other people's changes and
    the cool-downs of models."""
    heading(view.say("models.roles"))
    ui.label(view.say("models.roles_lead")).classes("nc-lead")
    place = ui.element("div").classes("nc-list")
    cards: dict[str, _RoleCard] = {}

    async def refresh() -> None:
        names = [each.group for each in await view.operator.models.all(view.actor)]
        for role in await view.operator.models.roles(view.actor):
            card = cards.get(role.role)
            if card is None:
                with place:
                    card = cards[role.role] = _RoleCard(view)
            card.draw(role, [DEFAULT, _EMBEDDED, *names[1:]])

    await refresh()
    ui.timer(_READ_AGAIN_S, refresh, immediate=False)


class _RoleCard:
    """One role."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._shown: tuple[RoleView, list[str]] | None = None
        self._card = ui.element("article").classes("nc-card")

    def draw(self, role: RoleView, names: list[str]) -> None:
        """Draw the role if it has changed. ``names`` are the models that can be chosen."""
        if self._shown == (role, names):
            return
        chosen = (
            self._shown is None or self._shown[0].names != role.names or (self._shown[1] != names)
        )
        self._shown = role, names
        if chosen:
            self._draw_all(role, names)
        self._models.clear()
        with self._models:
            for each in role.models:
                self._draw_model(each)

    def _draw_all(self, role: RoleView, names: list[str]) -> None:
        view = self._view
        self._card.clear()
        with self._card:
            title = view.say(f"models.role_{role.role}")
            ui.label(title).classes("nc-models-name").props('role="heading" aria-level="3"')
            ui.label(view.say(f"models.role_{role.role}_does")).classes("nc-soft nc-small")
            self._models = ui.element("div").classes("nc-wide")
            if view.may(AccessRole.OPERATOR):
                options = [*names, *(each for each in role.names if each not in names)]
                select = ui.select(
                    options,
                    multiple=True,
                    value=[*role.names],
                    label=view.say("models.role_models"),
                )
                select.props("outlined dense use-chips").classes("nc-wide")
                select.on_value_change(lambda event: self._put(role.role, event.value))

    def _draw_model(self, model: RoleModelView) -> None:
        view = self._view
        with ui.element("div").classes("nc-row"):
            ui.label(f"{model.name}: {model.model}" if model.model else model.name)
            if model.objection:
                badge(view.say("models.too_dear"), "warn")
            if model.state is BreakerState.OPEN:
                reason = view.say(f"turns.passed_{model.reason}")
                rest = view.say("models.rests", seconds=f"{model.seconds:.0f}", reason=reason)
                badge(rest, "bad")
            elif model.state is BreakerState.HALF_OPEN:
                badge(view.say("models.tried_next"), "warn")
        for text in (model.objection, model.detail if model.reason else ""):
            if text:
                ui.label(text).classes("nc-soft nc-small nc-lines")

    async def _put(self, role: str, names: list[str]) -> None:
        view, saved = self._view, list[bool]()
        await view.perform(
            view.operator.models.set_role.invoke(view.actor, {"role": role, "names": names}),
            view.say("models.saved"),
            refresh=lambda: saved.append(True),
        )
        if not saved and self._shown:  # The select must not go on showing a refused choice.
            shown, self._shown = self._shown, None
            self.draw(*shown)
