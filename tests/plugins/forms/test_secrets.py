"""A form never shows a secret. If a form is sent back unchanged, all secrets are kept."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nekro_core.plugins.forms.fields import FieldKind, FormField
from nekro_core.plugins.forms.from_schema import fields_of_schema
from nekro_core.plugins.forms.secrets import hidden_secrets, with_secrets, without_secrets

PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5))
SECRET = st.text(alphabet="0123456789", min_size=30, max_size=30)
NAMES = st.sampled_from(["a", "b", "c", "0", "1"])


def forms(depth: int) -> st.SearchStrategy[tuple[FormField, Any]]:
    """Fields, each with a value that fits."""
    leaves = st.one_of(
        st.tuples(st.just(FormField(name="", kind=FieldKind.ANY)), PLAIN),
        st.tuples(st.just(FormField(name="", kind=FieldKind.SECRET)), SECRET),
    )
    if not depth:
        return leaves
    inner = forms(depth - 1)
    return st.one_of(
        leaves,
        st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(table_of),
        inner.map(lambda each: (_of(FieldKind.LIST, each[0]), [each[1], each[1]])),
        inner.map(lambda each: (_of(FieldKind.TABLE, each[0]), {"x": each[1], "y": each[1]})),
    )


def _of(kind: FieldKind, item: FormField) -> FormField:
    return FormField(name="", kind=kind, item=item)


def table_of(found: dict[str, tuple[FormField, Any]]) -> tuple[FormField, Any]:
    """A table with these fields, and its values."""
    fields = tuple(_named(each, name) for name, (each, _) in found.items())
    values = {name: value for name, (_, value) in found.items()}
    return FormField(name="", kind=FieldKind.TABLE, fields=fields), values


def _named(each: FormField, name: str) -> FormField:
    return FormField(name=name, kind=each.kind, fields=each.fields, item=each.item)


def secrets_in(value: Any) -> list[str]:
    match value:
        case dict():
            return [each for inner in value.values() for each in secrets_in(inner)]
        case list():
            return [each for inner in value for each in secrets_in(inner)]
        case str() if len(value) == 30:
            return [value]
    return []


@given(st.dictionaries(NAMES, forms(3), min_size=1).map(table_of))
def test_a_form_that_is_sent_back_unchanged_keeps_its_secrets(form: tuple[FormField, Any]) -> None:
    table, values = form
    shown = hidden_secrets(table.fields, values)
    for secret in secrets_in(values):
        assert secret not in repr(shown)
        assert secret not in repr(without_secrets(table.fields, values, ()))
    problems: dict[str, str] = {}
    assert with_secrets(table.fields, shown, values, problems) == values
    assert problems == {}


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "$ref", "$defs", "anyOf", "allOf", "enum", "a",
                 "default", "required", "additionalProperties", "i18n", "i18n_title", "minimum"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["properties", "$defs", "required", "$ref"]), JSON))
def test_any_schema_gives_a_form(schema: dict[str, Any]) -> None:
    for each in fields_of_schema(schema):
        assert each.kind in FieldKind


def test_a_recursive_model_is_shown_as_a_json_field_at_some_depth() -> None:
    schema = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"child": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
            }
        },
    }
    (child,) = fields_of_schema(schema)
    depth = 1
    while child.fields:
        (child,) = child.fields
        depth += 1
    assert (child.kind, child.nullable, depth) == (FieldKind.ANY, True, 9)
