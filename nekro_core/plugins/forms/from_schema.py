"""Makes the fields of a form from a JSON schema.

This module understands the keywords of JSON Schema, and further keywords that authors of plugins
add to the fields of their pydantic classes: the fields of
`nekro_core.plugins.authoring.config.ExtraField`, and the keywords of MaiBot's configuration pages.
"""

import re
from collections.abc import Mapping
from typing import Any

from nekro_core.plugins.forms.fields import FieldKind, FormField

_DEEPEST = 8
"""Maximum depth of tables (objects with fields) within tables. For deeper tables, and for recursive
types, the form has one field in which people type JSON."""
_LONG_CHARS = 100
"""A default text that is longer, or has several lines, gets a field with several lines."""
_SECRET_NAME = re.compile(
    r"(^|_)(api_?keys?|secret(_?key)?|access_?key|token|password|passwd|credential)$", re.IGNORECASE
)
"""Names of text fields that are treated as secrets even if their author has not marked them as
secret. Published plugins seldom mark their secrets."""
_TYPES: Mapping[str, FieldKind] = {
    "string": FieldKind.TEXT,
    "integer": FieldKind.NUMBER,
    "number": FieldKind.NUMBER,
    "boolean": FieldKind.BOOL,
    "array": FieldKind.LIST,
    "object": FieldKind.TABLE,
}
_REFERENCES: Mapping[str, str] = {
    "ref_model_groups": "model_group",
    "ref_presets": "persona",
    "ref_email_accounts_send_enabled": "mail_account",
}


def fields_of_schema(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """Make the fields of a form from the schema of an object. For a value whose schema is too
    complex, people type JSON."""
    definitions = schema.get("$defs")
    definitions = definitions if isinstance(definitions, Mapping) else {}
    return _fields(_resolved(schema, definitions), definitions, 0)


def _fields(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int
) -> tuple[FormField, ...]:
    properties, required = schema.get("properties"), schema.get("required")
    needed = [*required] if isinstance(required, list) else []
    return tuple(
        _field(
            str(name), each if isinstance(each, Mapping) else {}, definitions, depth, name in needed
        )
        for name, each in (properties.items() if isinstance(properties, Mapping) else ())
    )


def _field(
    name: str,
    given: Mapping[str, Any],
    definitions: Mapping[str, Any],
    depth: int,
    needed: bool = False,
) -> FormField:
    schema, nullable = _without_null(given, definitions)
    kind = _kind(name, schema)
    default = schema.get("default")
    own_titles, own_helps = _texts_of(schema, "title"), _texts_of(schema, "description")
    inner: dict[str, Any] = {}
    if kind in (FieldKind.TABLE, FieldKind.LIST) and depth >= _DEEPEST:
        kind = FieldKind.ANY
    if kind is FieldKind.TABLE:
        inner["fields"] = _fields(schema, definitions, depth + 1)
        if not inner["fields"]:
            more = schema.get("additionalProperties")
            more = more if isinstance(more, Mapping) else {}
            inner["item"] = _field("", more, definitions, depth + 1)
    elif kind is FieldKind.LIST:
        items = schema.get("items")
        item = _field("", items if isinstance(items, Mapping) else {}, definitions, depth + 1)
        if item.kind is FieldKind.CHOICE and not item.several:
            kind = FieldKind.CHOICE
            inner = {"choices": item.choices, "several": True}
        else:
            inner["item"] = item
    elif kind is FieldKind.CHOICE:
        inner["choices"] = _choices(schema)
    is_number = kind is FieldKind.NUMBER
    return FormField(
        name=name,
        kind=kind,
        title=str(schema.get("label") or schema.get("title") or ""),
        help=str(schema.get("description") or schema.get("hint") or ""),
        titles=own_titles,
        helps=own_helps,
        default=None if kind is FieldKind.SECRET else default,
        required=needed or schema.get("required") is True,
        nullable=nullable,
        whole=is_number and schema.get("type") == "integer",
        least=_number(schema, "minimum", "minLength", "minItems"),
        most=_number(schema, "maximum", "maxLength", "maxItems"),
        above=_number(schema, "exclusiveMinimum"),
        below=_number(schema, "exclusiveMaximum"),
        step=_number(schema, "step", "multipleOf"),
        pattern=_word(schema, "pattern"),
        group=_word(schema, "group"),
        placeholder=_word(schema, "placeholder") or _word(schema, "example"),
        hidden=schema.get("is_hidden") is True or schema.get("hidden") is True,
        read_only=schema.get("readOnly") is True or schema.get("disabled") is True,
        needs_reload=schema.get("is_need_restart") is True,
        names_a=next((text for key, text in _REFERENCES.items() if schema.get(key) is True), ""),
        **inner,
    )


def _kind(name: str, schema: Mapping[str, Any]) -> FieldKind:
    if _choices(schema):
        return FieldKind.CHOICE
    kind = _TYPES.get(str(schema.get("type", "")))
    if kind is None:
        return FieldKind.TABLE if "properties" in schema else FieldKind.ANY
    if kind is not FieldKind.TEXT:
        return kind
    widgets = {schema.get("x-widget"), schema.get("input_type"), schema.get("ui_type")}
    if (
        schema.get("is_secret") is True
        or schema.get("format") == "password"
        or "password" in widgets
        or _SECRET_NAME.search(name)
    ):
        return FieldKind.SECRET
    default = schema.get("default")
    is_long = isinstance(default, str) and ("\n" in default or len(default) > _LONG_CHARS)
    if schema.get("is_textarea") is True or "textarea" in widgets or is_long:
        return FieldKind.MULTILINE
    return FieldKind.TEXT


def _choices(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    if "const" in schema:
        return (schema["const"],)
    values = schema.get("enum")
    return tuple(values) if isinstance(values, list) else ()


def _without_null(
    schema: Mapping[str, Any], definitions: Mapping[str, Any]
) -> tuple[Mapping[str, Any], bool]:
    """Return the schema of a value without null, and whether the value may be null. If the value
    may have several other types, return the empty schema, so that people type JSON."""
    schema = _resolved(schema, definitions)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        left = [each for each in kinds if each != "null"]
        alone = {"type": left[0]} if len(left) == 1 else {}
        rest = {key: value for key, value in schema.items() if key != "type"}
        return {**rest, **alone}, "null" in kinds
    options = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(options, list):
        return schema, False
    every = [_resolved(each, definitions) for each in options if isinstance(each, Mapping)]
    left = [each for each in every if each.get("type") != "null"]
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
    return {**(left[0] if len(left) == 1 else {}), **rest}, len(left) < len(every)


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema, with ``$ref`` replaced by the definition that it refers to. Keywords
    beside the ``$ref`` take precedence over the definition."""
    found: Mapping[str, Any] = schema
    seen: set[str] = set()
    while isinstance(name := found.get("$ref"), str) and name not in seen:
        seen.add(name)
        target = definitions.get(name.rpartition("/")[2])
        rest = {key: value for key, value in found.items() if key != "$ref"}
        found = {**target, **rest} if isinstance(target, Mapping) else rest
    whole = found.get("allOf")
    if isinstance(whole, list) and len(whole) == 1 and isinstance(whole[0], Mapping):
        rest = {key: value for key, value in found.items() if key != "allOf"}
        found = {**_resolved(whole[0], definitions), **rest}
    return found


def _texts_of(schema: Mapping[str, Any], what: str) -> dict[str, str]:
    """Return titles or descriptions by language. Authors write either ``i18n_title: {language:
    text}`` or ``i18n: {language: {title: text}}``; both are read."""
    found = {str(name): str(text) for name, text in _map(schema.get(f"i18n_{what}")).items()}
    words = ("label", "title") if what == "title" else ("description", "hint")
    for language, entries in _map(schema.get("i18n")).items():
        texts = [text for word in words if (text := _map(entries).get(word))]
        if texts:
            found.setdefault(str(language).replace("_", "-"), str(texts[0]))
    return found


def _map(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(schema: Mapping[str, Any], *names: str) -> float | None:
    for name in names:
        value = schema.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return None


def _word(schema: Mapping[str, Any], name: str) -> str:
    value = schema.get(name)
    return value if isinstance(value, str) else ""
