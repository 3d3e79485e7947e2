"""A form sends the values that it was given, with the changes that a person made."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nicegui import Client, ui
from nicegui.page import page
from pydantic import BaseModel, Field

from nekro_core.console.form_view import FormView
from nekro_core.plugins.forms.fields import FormField
from nekro_core.plugins.forms.from_schema import fields_of_schema
from nekro_core.plugins.forms.secrets import hidden_secrets
from tests.console.drawn_form import drawn, sent_untouched
from tests.plugins.forms.test_secrets import NAMES, forms, table_of


class Server(BaseModel):
    host: str = "here"
    port: int = Field(80, ge=1, le=65535)
    api_key: str = ""


class Everything(BaseModel):
    name: str = "n"
    ratio: float | None = None
    on: bool = True
    maybe: bool | None = None
    pick: Literal["a", "b"] = "a"
    many: list[Literal["x", "y"]] = []
    words: list[str] = ["q", "r"]
    servers: list[Server] = [Server()]
    one: Server = Server()
    numbers: dict[str, int] = {"a": 1}
    anything: Any = None
    long: str = "a\nb"
    password: str = ""


FIELDS = fields_of_schema(Everything.model_json_schema())


@pytest.fixture(autouse=True)
def client() -> Iterator[Client]:
    opened = Client(page("/"), request=None)
    with opened:
        yield opened
    opened.delete()


def form(values: dict[str, Any], fields: tuple[FormField, ...] = FIELDS, **more: Any) -> FormView:
    return drawn(fields, values, **more)


def enter(label: str, value: Any, number: int = 0) -> None:
    """Type something into the input with this label."""
    found = [
        each
        for each in ui.context.client.elements.values()
        if isinstance(each, ui.input | ui.textarea | ui.select | ui.switch)
        and label in (each.props.get("label"), getattr(each, "text", None))
    ]
    found[number].value = value


def click(label: str, number: int = 0) -> None:
    found = [
        each
        for each in ui.context.client.elements.values()
        if isinstance(each, ui.button) and label in (each.text, each.props.get("aria-label"))
    ]
    with found[number]:
        for listener in found[number]._event_listeners.values():
            if listener.type == "click":
                listener.handler(None)  # type: ignore[misc,arg-type]


def shown() -> list[str]:
    return [
        each.text
        for each in ui.context.client.elements.values()
        if isinstance(each, ui.label) and each.text and each.visible
    ]


def full() -> dict[str, Any]:
    values = Everything(ratio=0.5, anything={"deep": [1]}).model_dump()
    values["password"] = {"$secret": "password"}
    values["servers"][0]["api_key"] = {"$secret": "servers.0.api_key"}
    return values


def test_a_form_that_nobody_changed_sends_its_values_back_unchanged() -> None:
    values = full()
    shown_form = form(values)
    assert shown_form.values() == values
    assert shown_form.changed() == {}
    assert not shown_form.is_touched


@given(st.dictionaries(NAMES, forms(3), min_size=1).map(table_of))
def test_any_form_that_nobody_changed_sends_its_values_back_unchanged(
    found: tuple[FormField, Any],
) -> None:
    table, values = found
    shown = hidden_secrets(table.fields, values)
    assert sent_untouched(table.fields, shown) == shown


def test_a_form_without_values_that_nobody_changed_sends_nothing() -> None:
    assert form({}).values() == {}


def test_only_fields_in_which_somebody_typed_change() -> None:
    shown_form = form(full())
    enter("Ratio", "2")
    enter("On", False)
    enter("Many", [1])
    enter("Maybe", 2)
    assert shown_form.changed() == {"ratio": 2, "on": False, "many": ["y"], "maybe": False}
    assert shown_form.is_touched


def test_an_emptied_field_that_may_be_null_becomes_null() -> None:
    shown_form = form(full())
    enter("Ratio", "")
    assert shown_form.changed() == {"ratio": None}


def test_a_text_in_a_field_for_a_number_is_sent_and_checked_by_the_server() -> None:
    shown_form = form(full())
    enter("Port", "eighty")
    changed = shown_form.changed()
    assert changed is not None
    assert changed["servers"][0]["port"] == "eighty"


def test_a_moved_item_keeps_its_secret_and_a_new_one_has_none() -> None:
    shown_form = form(full())
    click("Add", 1)
    click("Move up", 3)
    changed = shown_form.changed()
    assert changed is not None
    new, old = changed["servers"]
    assert new.get("api_key", "") == ""
    assert old["api_key"] == {"$secret": "servers.0.api_key"}


def test_a_secret_is_removed_only_with_its_button() -> None:
    fields = tuple(each for each in FIELDS if each.name == "password")
    shown_form = form({"password": {"$secret": "password"}}, fields)
    enter("Password", "new")
    enter("Password", "")
    assert shown_form.changed() == {}
    click("Remove")
    assert shown_form.changed() == {"password": ""}


def test_a_secret_that_is_missing_in_the_values_stays_missing() -> None:
    shown_form = form({"name": "n"}, kept=["password"])
    assert shown_form.values() == {"name": "n"}
    enter("Password", "s3cret")
    assert shown_form.values() == {"name": "n", "password": "s3cret"}


def test_text_that_is_not_json_is_reported_at_its_field_and_not_sent() -> None:
    shown_form = form(full())
    enter("Anything (JSON)", "{")
    assert shown_form.values() is None
    assert any("not valid JSON" in each for each in shown())


def test_a_name_that_is_used_twice_is_reported() -> None:
    shown_form = form(full())
    click("Add", 2)
    enter("Name", "a", -1)
    assert shown_form.values() is None
    assert "The name a is there twice." in shown()


def test_problems_are_shown_at_their_fields_and_other_problems_below() -> None:
    shown_form = form(full())
    shown_form.show_problems({"values.servers.0.port": "too big", "values.gone": "unknown"})
    assert "too big" in shown()
    assert "values.gone: unknown" in shown()
    shown_form.clear_problems()
    assert "too big" not in shown()
