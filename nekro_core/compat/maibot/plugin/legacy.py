"""Reads data of old plugins that the SDK's adapter leaves out: the defaults of their configuration,
and the parameters and instructions of their actions and tools. Old plugins are those written before
the SDK."""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

_DEEPEST = 8


def legacy_factory(module: Any, folder: Path) -> Callable[[], Any] | None:
    """A factory for a plugin that was written before there was an SDK. It wraps the plugin's class
    in an adapter of the SDK. None if the module has no such class."""
    plugin_class = getattr(module, "_legacy_plugin_class", None)
    if plugin_class is None:
        marked = (each for each in vars(module).values() if isinstance(each, type))
        plugin_class = next(
            (each for each in marked if "_is_legacy_registered" in vars(each)), None
        )
    if plugin_class is None:
        return None
    from maibot_sdk.compat.legacy_adapter import LegacyPluginAdapter  # noqa: PLC0415 - rare

    # The SDK's base class lacks these attributes. Many plugins read their configuration to decide
    # which components they have.
    for name, value in (("get_config", _get_config), ("plugin_dir", str(folder)), ("config", {})):
        if not hasattr(plugin_class, name):
            setattr(plugin_class, name, value)
    return lambda: LegacyPluginAdapter(plugin_class())


def legacy_defaults(instance: Any) -> dict[str, Any]:
    """The defaults of an old plugin's ``config_schema``; empty for any other plugin."""
    schema = getattr(getattr(instance, "_legacy", None), "config_schema", None)
    return _defaults(schema, 0) if isinstance(schema, Mapping) else {}


def give_legacy_settings(instance: Any, settings: Mapping[str, Any]) -> None:
    """Set the ``config`` of an old plugin's object."""
    legacy = getattr(instance, "_legacy", None)
    if legacy is not None:
        legacy.config = dict(settings)


def merged(defaults: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, with the defaults for missing values."""
    made = deepcopy(dict(values))
    for key, default in defaults.items():
        if key not in made:
            made[key] = deepcopy(default)
        elif isinstance(default, Mapping) and isinstance(made[key], Mapping):
            made[key] = merged(default, made[key])
    return made


def with_legacy_details(instance: Any, declared: Iterable[Any]) -> list[Any]:
    """Add the parameters and instructions of an old plugin's actions and tools to its declared
    components. Other plugins' components are returned unchanged."""
    objects = getattr(instance, "_component_instances", None)
    if not isinstance(objects, Mapping) or getattr(instance, "_legacy", None) is None:
        return list(declared)
    return [_detailed(each, objects) for each in declared]


def _detailed(component: Any, objects: Mapping[str, Any]) -> Any:
    if not isinstance(component, Mapping):
        return component
    own, metadata = objects.get(str(component.get("name"))), component.get("metadata")
    if own is None or not isinstance(metadata, Mapping):
        return component
    match str(component.get("type", "")).upper():
        case "ACTION":
            more = _of_action(own, str(component.get("description") or ""))
        case "TOOL":
            more = _of_tool(own, metadata)
        case _:
            return component
    return {**component, "metadata": {**metadata, **more}}


def _of_action(action: Any, description: str) -> dict[str, Any]:
    given = getattr(action, "action_parameters", None)
    given = given if isinstance(given, Mapping) else {}
    needs = _texts(getattr(action, "action_require", ()))
    words = _texts(getattr(action, "activation_keywords", ()))
    prompt = str(getattr(action, "action_prompt", "") or "").strip()
    parts = [
        description.strip(),
        prompt,
        "\n".join(["When to use it:", *(f"- {each}" for each in needs)]) if needs else "",
        f"It is meant for messages with: {', '.join(words)}" if words else "",
    ]
    return {
        "legacy_action": True,
        "detailed_description": "\n\n".join(filter(None, parts)),
        # MaiBot's model may leave out any parameter. If a parameter may not be left out, its
        # description says so.
        "parameters": [
            {"name": str(name), "type": "string", "description": str(about), "required": False}
            for name, about in given.items()
        ],
    }


def _of_tool(tool: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the allowed values of parameters, which the SDK's adapter leaves out."""
    declared = getattr(tool, "parameters", None)
    choices = {
        each[0]: list(each[4])
        for each in (declared if isinstance(declared, list | tuple) else ())
        if isinstance(each, list | tuple) and len(each) > 4 and isinstance(each[4], list | tuple)
    }
    parameters = metadata.get("parameters")
    if not choices or not isinstance(parameters, list):
        return {}
    return {
        "parameters": [
            {**each, "enum": choices[each["name"]]} if choices.get(each.get("name")) else each
            for each in parameters
        ]
    }


def _texts(value: Any) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, Iterable):
        return []
    return [text for each in values if (text := str(each).strip())]


def _defaults(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, each in schema.items():
        if hasattr(each, "default"):
            value = _plain(each.default)
        elif isinstance(each, Mapping) and depth < _DEEPEST:
            value = _defaults(each, depth + 1)
        else:
            continue
        if value is not None:
            made[str(key)] = value
    return made


def _plain(value: Any) -> Any:
    """Convert a value to one that TOML can contain."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value if each is not None]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _get_config(self: Any, key: str, default: Any = None) -> Any:
    current: Any = getattr(self, "config", None)
    for part in key.split("."):
        if not isinstance(current, Mapping) or part not in current:
            return default
        current = current[part]
    return current
