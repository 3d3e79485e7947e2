"""Shows the configurations of loaded plugins as forms, and changes them."""

import hashlib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.configuration.native import configuration_of
from nekro_core.plugins.forms.configuration import FormRefused, PluginConfiguration
from nekro_core.plugins.forms.fields import FormField, field_at, place_text
from nekro_core.plugins.forms.secrets import (
    Place,
    hidden_secrets,
    secrets_of,
    with_secrets,
    without_secrets,
)
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.documents import DocumentConflict, DocumentStore, FileDocuments
from nekro_core.system.errors import NekroError

DOCUMENTS = ("plugin_data/*/config.yaml", "plugins/*/config.toml")
"""Patterns of the names of the files with configurations, for `DocumentStore.listed`. The second
pattern is for plugins of other bots, whose configuration is in the folder of the plugin's code."""
_REMEMBERED = 64
"""Maximum number of revisions whose values are remembered. They are needed to say which values
somebody else has changed."""


class NoConfiguration(NekroError, LookupError):
    """The plugin has no configuration."""


class ConfigurationChanged(NekroError):
    """The file has changed since the form was read, so nothing was written. ``changed`` has the
    places of the changed values; empty if they are not known. ``revision`` is the present revision
    of the file."""

    def __init__(self, text: str, changed: tuple[str, ...], revision: str) -> None:
        super().__init__(text)
        self.changed = changed
        self.revision = revision


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One value that was changed. ``place`` is for example ``server.port``. For a secret, the old
    and new value only say whether it is set."""

    place: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationForm:
    """The form of a plugin's configuration.

    Attributes:
        plugin: The plugin's key.
        fields: The fields.
        values: The present values by name. A secret that is set is ``{"$secret": "place"}``.
        revision: Identifies the content of the file. `PluginConfigurations.write` takes it.
        problem: Why the file cannot be used; ``values`` are then the defaults. Empty if the file
            can be used.
    """

    plugin: str
    fields: tuple[FormField, ...]
    values: Mapping[str, Any]
    revision: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationChange:
    """The outcome of `PluginConfigurations.write`.

    Attributes:
        plugin: The plugin's key.
        revision: Identifies the new content of the file.
        changes: The changed values.
        reloaded: Whether the plugin was loaded again.
        undo: Values that undo the change if they are written, without secrets. None if a secret was
            changed, because such a change cannot be undone.
    """

    plugin: str
    revision: str
    changes: tuple[FieldChange, ...]
    reloaded: bool = False
    undo: Mapping[str, Any] | None = None


class PluginConfigurations:
    """The configurations of the loaded plugins of one bot. Changes are made one after another.

    Args:
        registry: The plugins.
        documents: Writes the files of the data folder. None writes them as plain files.
    """

    def __init__(self, registry: PluginRegistry, documents: DocumentStore | None = None) -> None:
        self._registry = registry
        self._data = registry.services.data_dir
        self._documents = documents or FileDocuments(self._data, secret=DOCUMENTS)
        self._writing = anyio.Lock()
        self._seen: dict[tuple[str, str], Mapping[str, Any]] = {}

    def has_form(self, plugin: str) -> bool:
        """Return True if a plugin is loaded and has a configuration. ``plugin`` is its key or its
        item (``local/weather``)."""
        try:
            self._found(plugin)
        except (NoConfiguration, LookupError):
            return False
        return True

    async def form(self, plugin: str) -> ConfigurationForm:
        """Get the form of a plugin. ``plugin`` is its key or item. Raises `UnknownPlugin` if the
        plugin is not loaded, and `NoConfiguration`."""
        loaded, own = self._found(plugin)
        revision = _revision(own.path)
        with loaded.acting():
            fields = own.fields()
            try:
                values, problem = own.read(), ""
            except FormRefused as error:
                values, problem = own.checked({}), str(error)
        self._remember(loaded.key, revision, values)
        return ConfigurationForm(
            plugin=loaded.key,
            fields=fields,
            values=hidden_secrets(fields, values),
            revision=revision,
            problem=problem,
        )

    async def write(
        self, plugin: str, values: Mapping[str, Any], *, expected: str
    ) -> ConfigurationChange:
        """Check the values of a form, write them to the plugin's file and give them to the plugin.

        Values that are left out stay as they are; the items of a list are replaced as a whole.
        ``expected`` is the revision of the form that was filled in.

        Raises `FormRefused`, `ConfigurationChanged`, `NoConfiguration`, `UnknownPlugin` and
        `OSError`. After an error, nothing has changed.
        """
        async with self._writing:
            loaded, own = self._found(plugin)
            self._refuse_old(loaded.key, own, expected)
            with loaded.acting():
                fields = own.fields()
                before = _read(own)
                new = own.checked(_merged(fields, before, values))
                changes = tuple(_changes(fields, before, new, ()))
                text = own.new_text(new)
            if changes:
                await self._write(loaded.key, own, text, expected)
            reload = any(_needs_reload(fields, each.place) for each in changes)
            if reload:
                await self._registry.reload(self._item(loaded.key))
            elif changes:
                await own.apply()
            revision = _revision(own.path)
            self._remember(loaded.key, revision, new)
        return ConfigurationChange(
            plugin=loaded.key,
            revision=revision,
            changes=changes,
            reloaded=reload,
            undo=_undo(fields, before, new),
        )

    async def _write(self, key: str, own: PluginConfiguration, text: str, expected: str) -> None:
        try:
            name = own.path.relative_to(self._data).as_posix()
        except ValueError:  # The file is not below the data folder, so it is not a document.
            await anyio.to_thread.run_sync(write_whole, own.path, text.encode())
            return
        found = await self._documents.read(name)
        if _revision(own.path) != expected:
            self._refuse_old(key, own, expected)
        try:
            revision = found.revision if found else None
            await self._documents.write(name, text, expected=revision)
        except DocumentConflict:
            # Another process has written the file in the meantime. Say which values differ.
            self._refuse_old(key, own, expected)
            raise

    def _found(self, plugin: str) -> tuple[NekroPlugin, PluginConfiguration]:
        loaded = self._registry.loaded(plugin)
        own = configuration_of(loaded)
        with loaded.acting():
            if own is None or not own.has_fields():
                raise NoConfiguration(f"the plugin {loaded.key} has no configuration")
        return loaded, own

    def _item(self, key: str) -> str:
        return next(each.item for each in self._registry.plugins() if each.key == key)

    def _refuse_old(self, key: str, own: PluginConfiguration, expected: str) -> None:
        present = _revision(own.path)
        if present == expected:
            return
        known = self._seen.get((key, expected))
        changed: tuple[str, ...] = ()
        if known is not None:
            now = _read(own)
            changed = tuple(each.place for each in _changes(own.fields(), known, now, ()))
        what = f": {', '.join(changed)}" if changed else ""
        raise ConfigurationChanged(
            f"the configuration of {key} was changed since this form was read{what}. "
            "Read it again, then change it",
            changed,
            present,
        )

    def _remember(self, key: str, revision: str, values: Mapping[str, Any]) -> None:
        self._seen.pop((key, revision), None)
        self._seen[key, revision] = deepcopy({**values})
        while len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]


def _undo(
    fields: tuple[FormField, ...], before: Mapping[str, Any], new: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    back = {name: value for name, value in before.items() if new.get(name) != value}
    kept = dict(secrets_of(fields, new))
    if any(kept.get(place) != secret for place, secret in secrets_of(fields, back)):
        return None
    return hidden_secrets(fields, back)


def _read(own: PluginConfiguration) -> dict[str, Any]:
    """Return the values in the file. If the file cannot be used, return the defaults, so that the
    operator can correct the file with a form."""
    try:
        return own.read()
    except FormRefused:
        return own.checked({})


def _revision(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        data = b""
    return hashlib.sha256(data).hexdigest()


def _merged(
    fields: tuple[FormField, ...], before: Mapping[str, Any], sent: Mapping[str, Any]
) -> dict[str, Any]:
    problems: dict[str, str] = {}
    restored = with_secrets(fields, sent, before, problems)
    made = _over(fields, before, restored, (), problems)
    if problems:
        told = "; ".join(f"{place}: {text}" for place, text in problems.items())
        raise FormRefused(told, problems)
    return made


def _over(
    fields: tuple[FormField, ...],
    before: Mapping[str, Any],
    sent: Mapping[str, Any],
    above: Place,
    problems: dict[str, str],
) -> dict[str, Any]:
    """Replace present values with the values that were sent. Tables with fixed names are merged."""
    known = {each.name: each for each in fields}
    made = dict(before)
    for name, value in sent.items():
        own, old = known.get(name), before.get(name)
        place = (*above, name)
        if own is None:
            problems[place_text(place)] = f"there is no such field; there are {', '.join(known)}"
        elif own.read_only and value != old:
            problems[place_text(place)] = "it cannot be changed here"
        elif own.fields and isinstance(value, Mapping) and isinstance(old, Mapping):
            made[name] = _over(own.fields, old, value, place, problems)
        else:
            made[name] = value
    return made


def _changes(
    fields: tuple[FormField, ...], old: Any, new: Any, place: Place
) -> Iterator[FieldChange]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys([*old, *new]):
            yield from _changes(fields, old.get(name), new.get(name), (*place, str(name)))
    elif old != new or type(old) is not type(new):
        yield FieldChange(
            place=place_text(place),
            old=without_secrets(fields, old, place),
            new=without_secrets(fields, new, place),
        )


def _needs_reload(fields: tuple[FormField, ...], place: str) -> bool:
    found: Place = ()
    for step in place.split("."):
        found = (*found, step)
        own = field_at(fields, found)
        if own is not None and own.needs_reload:
            return True
    return False
