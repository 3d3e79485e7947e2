"""Draws a form from a list of fields (`nekro_core.plugins.forms.fields.FormField`).

`FormView` is used for configurations of plugins, arguments of tools, accounts of platforms, models
and settings. Fields come from a pydantic model or a JSON Schema with
`nekro_core.plugins.forms.from_schema.fields_of_schema`::

    form = FormView(view, fields, values)          # draws the form

    async def save() -> None:
        change = await form.send(
            lambda entered: area.configure.invoke(
                view.actor, {"plugin": key, "values": entered, "expected": revision}
            ),
            view.say("plugins.saved"),
        )
        if change is not None:                      # it was carried out: draw the form anew
            await show.refresh()

    ui.button(view.say("form.save"), on_click=save)

`send` shows each of `InvalidParameters.problems` at its field, and says if somebody else has
changed the same values meanwhile. The typed values stay until the caller draws the form anew.

Secrets are never shown. There are two ways to say that a secret is set. Either its value is
``{"$secret": "place"}``, and the form sends this back unless the person types a new secret. Or the
values leave the secret out, and its place is in ``kept``. Then the form also leaves it out, unless
the person types a new secret.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from nicegui import ui

from nekro_core.console.form_tables import draw_fields, read_inputs
from nekro_core.console.form_texts import FormSetting
from nekro_core.console.view import View
from nekro_core.operator.audit import Done
from nekro_core.operator.errors import ChangedMeanwhile, InvalidParameters
from nekro_core.plugins.forms.fields import FormField
from nekro_core.system.errors import NekroError

Result = TypeVar("Result")


class FormView:
    """A form on a page.

    Args:
        view: The opened page.
        fields: The fields.
        values: The present values by name. A field without a value shows its default, which is not
            sent unless the person changes it.
        prefix: The name of the action's parameter that takes the values; problems at
            ``<prefix>.<field>`` are shown at the field. Empty if the fields are the parameters.
        read_only: Whether nothing can be entered.
        kept: The places of secrets that are set and that ``values`` leaves out, for example
            ``imap.password``.
        suggestions: The names that text inputs offer. The key is the kind of thing that the text
            names, as in `FormField.names_a`.
        reload: Draws the form anew with the present values. If it is given, the message about a
            change by somebody else has a button for it.
    """

    def __init__(
        self,
        view: View,
        fields: Sequence[FormField],
        values: Mapping[str, Any],
        *,
        prefix: str = "values",
        read_only: bool = False,
        kept: Collection[str] = (),
        suggestions: Mapping[str, Sequence[str]] | None = None,
        reload: Callable[[], Any] | None = None,
    ) -> None:
        self._view, self._prefix, self._reload = view, prefix, reload
        setting = FormSetting(
            view=view,
            read_only=read_only,
            kept=frozenset(kept),
            suggestions=suggestions or {},
        )
        with ui.element("div").classes("nc-form"):
            self._inputs = draw_fields(setting, fields, values, ())
            self._notice = ui.element("div").classes("nc-form-notice").props('role="alert"')
            self._notice.set_visibility(False)
        self._first = read_inputs(self._inputs, (), {})

    @property
    def is_touched(self) -> bool:
        """Return True if a value was changed since the form was drawn."""
        problems: dict[str, str] = {}
        return read_inputs(self._inputs, (), problems) != self._first or bool(problems)

    def values(self) -> dict[str, Any] | None:
        """Return all values that are to be sent; None if a value cannot be read. Each problem is
        shown at its field."""
        self.clear_problems()
        problems: dict[str, str] = {}
        entered = read_inputs(self._inputs, (), problems)
        if problems:
            self.show_problems(problems)
            return None
        return entered

    def changed(self) -> dict[str, Any] | None:
        """Return only the values that the person changed. Otherwise like `values`."""
        entered = self.values()
        if entered is None:
            return None
        return {
            name: value
            for name, value in entered.items()
            if name not in self._first or self._first[name] != value
        }

    def show_problems(self, problems: Mapping[str, str]) -> None:
        """Show each problem at its field, and problems without a field below the form.

        Args:
            problems: By place, for example ``server.port``, with or without the prefix.
        """
        others: list[str] = []
        for place, text in problems.items():
            parts = place.split(".")
            if self._prefix and parts[0] == self._prefix and len(parts) > 1:
                parts = parts[1:]
            if parts[0] in self._inputs:
                self._inputs[parts[0]].show_problem(parts[1:], text)
            else:
                others.append(f"{place}: {text}")
        self.tell("\n".join(others) or self._view.say("form.see_fields"))

    def clear_problems(self) -> None:
        """Take all shown problems away."""
        self._notice.clear()
        self._notice.set_visibility(False)
        for each in self._inputs.values():
            each.clear_problems()

    def tell(self, text: str, *, reload: bool = False) -> None:
        """Show a text below the form. With ``reload``, it has a button that draws the form anew."""
        self._notice.clear()
        with self._notice:
            ui.label(text).classes("nc-bad nc-lines")
            if reload and self._reload is not None:
                again = ui.button(self._view.say("form.load_present"), on_click=self._reload)
                again.props("flat dense no-caps")
        self._notice.set_visibility(True)

    async def send(
        self,
        action: Callable[[dict[str, Any]], Awaitable[Done[Result]]],
        done: str,
        *,
        changed_only: bool = False,
        refresh: Callable[[], Any] | None = None,
    ) -> Result | None:
        """Carry an action out with the values.

        Args:
            action: Called with the values.
            done: The text for success.
            changed_only: Whether only the changed values are sent.
            refresh: See `View.perform`.

        Returns:
            What the action returned; None if a value cannot be read or the action failed.
        """
        entered = self.changed() if changed_only else self.values()
        if entered is None:
            return None
        return await self._view.perform(
            action(entered), done, refresh=refresh, refused=self.show_refusal
        )

    def show_refusal(self, error: NekroError) -> None:
        """Show why an action was refused."""
        self.clear_problems()
        if isinstance(error, InvalidParameters):
            self.show_problems(error.problems)
        else:
            self.tell(str(error), reload=isinstance(error, ChangedMeanwhile))
