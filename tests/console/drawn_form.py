"""Draws forms of the console without a browser."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from nicegui import Client
from nicegui.page import page

from nekro_core.console.form_view import FormView
from nekro_core.console.view import View
from nekro_core.operator.operator import Operator
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.plugins.forms.fields import FormField

ANN = Actor(name="ann", role=AccessRole.OWNER, origin=RequestOrigin.PAGE)


def drawn(fields: Sequence[FormField], values: Mapping[str, Any], **more: Any) -> FormView:
    """Add a form to the page of the current client. The form cannot call operations."""
    view = View(operator=cast("Operator", None), actor=ANN, language="en")
    return FormView(view, fields, values, **more)


def sent_untouched(fields: Sequence[FormField], values: Mapping[str, Any]) -> dict[str, Any] | None:
    """The values that a form sends if nobody has typed anything."""
    client = Client(page("/"), request=None)
    try:
        with client:
            return drawn(fields, values).values()
    finally:
        client.delete()
