"""The configuration of a `NekroPlugin`: a pydantic class and a YAML file."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema

from nekro_core.plugins.authoring.config import ConfigBase, ConfigError, faults_of, plain_values
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.forms.configuration import FormRefused, PluginConfiguration
from nekro_core.plugins.forms.fields import FormField
from nekro_core.plugins.forms.from_schema import fields_of_schema


def configuration_of(plugin: NekroPlugin) -> PluginConfiguration | None:
    """Return the configuration of a loaded plugin; None if the plugin has none."""
    if plugin.configuration is not None:
        return plugin.configuration
    return NativeConfiguration(plugin) if plugin.config_class is not ConfigBase else None


class NativeConfiguration:
    """The configuration of one plugin. See `PluginConfiguration`."""

    def __init__(self, plugin: NekroPlugin) -> None:
        self._plugin = plugin

    @property
    def path(self) -> Path:
        """See `PluginConfiguration.path`."""
        return self._plugin.config_path

    def has_fields(self) -> bool:
        """See `PluginConfiguration.has_fields`."""
        return bool(self._plugin.config_class.model_fields)

    def fields(self) -> tuple[FormField, ...]:
        """See `PluginConfiguration.fields`."""
        return fields_of_schema(model_schema(self._plugin.config_class))

    def read(self) -> dict[str, Any]:
        """See `PluginConfiguration.read`."""
        try:
            return plain_values(self._plugin.config_class.load_config(self.path))
        except ConfigError as error:
            raise FormRefused(str(error)) from None

    def checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """See `PluginConfiguration.checked`."""
        try:
            return plain_values(self._plugin.config_class.model_validate({**values}))
        except ValidationError as error:
            problems: dict[str, str] = {}
            for place, text in faults_of(error):
                problems.setdefault(place, text)
            told = "; ".join(f"{place}: {text}" for place, text in faults_of(error))
            raise FormRefused(told, problems) from None

    def new_text(self, values: Mapping[str, Any]) -> str:
        """See `PluginConfiguration.new_text`."""
        path = self.path
        # Import this here: ruamel.yaml takes 10 ms to import, and only a write needs it.
        from nekro_core.plugins.forms.yaml_files import changed_yaml  # noqa: PLC0415

        return changed_yaml(path.read_text("utf-8") if path.exists() else "", values)

    async def apply(self) -> None:
        """See `PluginConfiguration.apply`."""
        self._plugin.look_at_config()


def model_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a pydantic class. If the type of a field has no JSON schema, the
    field gets the empty schema; a form then lets people enter JSON text."""
    try:
        return model.model_json_schema(by_alias=False)
    except PydanticInvalidForJsonSchema:
        return {"type": "object", "properties": dict(_properties(model))}


def _properties(model: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        try:
            schema = TypeAdapter(field.rebuild_annotation()).json_schema()
        except PydanticInvalidForJsonSchema:
            schema = {}
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        yield name, {**schema, "title": field.title or name, **extra}
