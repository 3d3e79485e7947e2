"""The configuration of a MaiBot plugin as a form."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from nekro_core.compat.maibot.plugin import configuration
from nekro_core.compat.maibot.plugin.configuration import MaiBotConfigError
from nekro_core.compat.maibot.plugin.loaded import MaiBotPlugin
from nekro_core.plugins.authoring.config import faults_of
from nekro_core.plugins.configuration.native import model_schema
from nekro_core.plugins.forms.configuration import FormRefused
from nekro_core.plugins.forms.fields import FormField
from nekro_core.plugins.forms.from_schema import fields_of_schema

_HIDDEN = ("enabled", "config_version")
"""Values of the section ``plugin`` that a form leaves out. The bot has its own switch in place of
``enabled``, and the plugin itself writes ``config_version``."""
_DEEPEST = 6


class MaiBotConfiguration:
    """The configuration of one plugin; see `PluginConfiguration`. ``changed`` lets the plugin read
    the values of the file."""

    def __init__(self, plugin: MaiBotPlugin, changed: Callable[[], Awaitable[None]]) -> None:
        self._plugin = plugin
        self._changed = changed

    @property
    def path(self) -> Path:
        """See `PluginConfiguration.path`."""
        return self._plugin.folder / configuration.FILE_NAME

    def has_fields(self) -> bool:
        """See `PluginConfiguration.has_fields`."""
        return bool(self._plugin.settings) or bool(self.fields())

    def fields(self) -> tuple[FormField, ...]:
        """See `PluginConfiguration.fields`."""
        return fields_of_schema(schema_of(self._plugin.instance, self._plugin.settings))

    def read(self) -> dict[str, Any]:
        """See `PluginConfiguration.read`."""
        try:
            values = configuration.read(self.path)
        except MaiBotConfigError as error:
            raise FormRefused(str(error)) from None
        return self.checked(values)

    def checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """See `PluginConfiguration.checked`."""
        try:
            made = configuration.normalized(self._plugin.instance, values)
        except MaiBotConfigError as error:
            cause = error.__cause__
            faults = faults_of(cause) if isinstance(cause, ValidationError) else ()
            problems: dict[str, str] = {}
            for place, text in faults:
                problems.setdefault(place, text)
            raise FormRefused(str(error), problems) from None
        plain: dict[str, Any] = to_jsonable_python(made, fallback=str)
        return plain

    def new_text(self, values: Mapping[str, Any]) -> str:
        """See `PluginConfiguration.new_text`."""
        try:
            return configuration.new_text(self.path, values)
        except MaiBotConfigError as error:
            raise FormRefused(str(error)) from None

    async def apply(self) -> None:
        """See `PluginConfiguration.apply`."""
        await self._changed()


def schema_of(instance: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a plugin's configuration. It is made from the first of these that
    the plugin has: a configuration class, a description of a configuration page, an old
    ``config_schema``. If the plugin has none of them, the schema is made from the present
    values."""
    find = getattr(type(instance), "get_config_model", None)
    model = find() if find is not None else None
    page = _page(instance)
    legacy = getattr(getattr(instance, "_legacy", None), "config_schema", None)
    if isinstance(model, type) and issubclass(model, BaseModel):
        schema = model_schema(model)
        _add_sections(schema, page)
    elif page:
        schema = _object({name: _of_section(each) for name, each in page.items()})
    elif isinstance(legacy, Mapping):
        schema = _of_legacy(legacy, 0)
    else:
        schema = _of_value(values, 0)
    own = schema.get("properties", {}).get("plugin", {})
    if "$ref" in own or not own.get("properties"):
        own = schema.get("$defs", {}).get(str(own.get("$ref", "")).rpartition("/")[2], own)
    for name in _HIDDEN:
        if isinstance(each := own.get("properties", {}).get(name), dict):
            each["hidden"] = True
    return schema


def _page(instance: Any) -> Mapping[str, Mapping[str, Any]]:
    """The sections of the configuration page that the plugin describes; empty if there is none."""
    find = getattr(instance, "get_webui_config_schema", None)
    try:
        found = find() if find is not None else None
    except Exception:  # noqa: BLE001 - it may be the plugin's own code
        return {}
    sections = found.get("sections") if isinstance(found, Mapping) else None
    if not isinstance(sections, Mapping):
        return {}
    return {str(name): each for name, each in sections.items() if isinstance(each, Mapping)}


def _add_sections(schema: dict[str, Any], page: Mapping[str, Mapping[str, Any]]) -> None:
    """Add the titles of the sections, which the configuration class does not have."""
    properties = schema.get("properties", {})
    for name, each in page.items():
        if isinstance(own := properties.get(name), dict):
            own["title"] = str(each.get("title") or name)
            if isinstance(each.get("i18n"), Mapping):
                own["i18n"] = each["i18n"]


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def _of_section(section: Mapping[str, Any]) -> dict[str, Any]:
    given = section.get("fields")
    fields = given.items() if isinstance(given, Mapping) else ()
    made = {str(name): _of_field(each) for name, each in fields if isinstance(each, Mapping)}
    about = {key: section[key] for key in ("title", "description", "i18n") if section.get(key)}
    return _object(made, **about)


def _of_field(given: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a field of a configuration page."""
    made: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    made.pop("required", None)
    kind = str(made.pop("type", "string"))
    for word, name in (("min", "minimum"), ("max", "maximum")):
        if word in made:
            made[name] = made.pop(word)
    choices = made.pop("choices", None)
    item_fields, item_type = made.pop("item_fields", None), made.pop("item_type", None)
    if isinstance(choices, list) and choices:
        several = made.get("multiple") is True
        made |= {"type": "array", "items": {"enum": choices}} if several else {"enum": choices}
    elif kind == "array":
        items = {"type": item_type or "string"}
        if isinstance(item_fields, Mapping):
            items = _object({str(name): _of_field(each) for name, each in item_fields.items()})
        made |= {"type": "array", "items": items}
    else:
        made["type"] = kind if kind != "select" else "string"
    return made


_JSON_TYPES: Mapping[type, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object",
}  # fmt: skip


def _of_legacy(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """Return the schema for an old plugin's ``config_schema``: sections with objects, each of which
    describes a field."""
    made: dict[str, Any] = {}
    for name, each in schema.items():
        if isinstance(each, Mapping):
            if depth < _DEEPEST:
                made[str(name)] = _of_legacy(each, depth + 1)
        elif hasattr(each, "default"):
            words = ("description", "default", "min", "max", "step", "choices", "label", "hint",
                     "placeholder", "hidden", "disabled", "input_type", "item_type",
                     "item_fields", "pattern")  # fmt: skip
            field = {word: getattr(each, word, None) for word in words}
            kind = _JSON_TYPES.get(getattr(each, "type", str), "string")
            made[str(name)] = _of_field({**field, "type": kind})
    return _object(made)


def _of_value(value: Any, depth: int) -> dict[str, Any]:
    """Return a schema that fits a present value."""
    if isinstance(value, Mapping):
        if depth >= _DEEPEST:
            return {}
        return _object({str(name): _of_value(each, depth + 1) for name, each in value.items()})
    if isinstance(value, list):
        return {"type": "array", "items": _of_value(value[0], depth + 1) if value else {}}
    kind = _JSON_TYPES.get(type(value))
    return {"type": kind, "default": value} if kind else {}
