"""Changes settings in ``data/settings.toml`` and ``data/secrets.toml``, also while no bot runs."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import anyio.to_thread
from dotenv.parser import parse_stream

from nekro_core.app.settings import Settings
from nekro_core.app.settings_catalogue import (
    SettingField,
    find_setting,
    path_of_variable,
    plain,
    setting_infos,
    value_at,
    variable_of,
)
from nekro_core.app.settings_file import (
    HEAD,
    SECRETS,
    SECRETS_HEAD,
    SETTINGS,
    TomlFault,
    parse_toml,
    with_value,
    without_value,
)
from nekro_core.app.settings_sources import FieldPath, SettingsError, toml_path
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.documents import Document, DocumentStore, FileDocuments
from nekro_core.system.setting_info import SettingChange, SettingInfo, SettingLocked

ENV_COPIES = "env_copies"
"""The folder in the data folder with copies of ``.env`` files. A copy is made before settings are
moved out of the file. The copies contain secrets."""
_NEVER_MOVED = ("ENVIRONMENT", "NEKRO_DATA_DIR")
"""Variables that decide which files are read. So they cannot be moved into a file."""


class SettingsEditor:
    """Lists and changes settings. Each change is checked as a whole before it is written: if the
    bot could not start with it, nothing is written.

    Args:
        folder: The folder with ``.env``, in which the bot is started.
        documents: The store of the two files; by default the files of the data folder.
    """

    def __init__(self, folder: Path = Path(), documents: DocumentStore | None = None) -> None:
        self._folder = folder
        self._documents = documents
        self._changing = anyio.Lock()

    def load(self) -> Settings:
        """Return the settings that the files and the environment contain now. Raises
        `SettingsError`."""
        return Settings.load(self._folder)

    async def infos(self, running: Settings | None = None) -> list[SettingInfo]:
        """Return all settings. ``running`` are the settings in force in this process. Raises
        `SettingsError` if the files are wrong."""
        settings = await anyio.to_thread.run_sync(self.load)
        return setting_infos(settings, running)

    async def set(self, values: Mapping[str, Any]) -> list[SettingChange]:
        """Change several settings together, and return the changes.

        Args:
            values: The new values by name. None removes a setting from the file, so that its
                default applies. A text is converted to the type of the setting.

        Raises:
            SettingsError: A name or a value is wrong. Nothing was written.
            SettingLocked: The environment or ``.env`` gives the value of a setting.
            DocumentConflict: A file was changed at the same time.
            DocumentError: A file cannot be written. If this is ``settings.toml``, the changes of
                secrets have already been written to ``secrets.toml``; the same is true after a
                `DocumentConflict`.
        """
        async with self._changing:
            settings = await anyio.to_thread.run_sync(self.load)
            wanted = {find_setting(settings, name): value for name, value in values.items()}
            for field in wanted:
                _check_unlocked(settings, field)
            return await self._write(settings, wanted)

    async def move_from_env(self, names: Sequence[str]) -> list[SettingChange]:
        """Move settings from the ``.env`` files into the files of the data folder. Each line of
        ``.env`` becomes a comment that names the new place. A copy of the ``.env`` file is kept in
        the folder `ENV_COPIES` of the data folder.

        Args:
            names: The settings; empty for all in the ``.env`` files.

        Raises:
            SettingsError: A setting is not in a ``.env`` file, or cannot be moved.
            DocumentError: A file cannot be written.
        """
        async with self._changing:
            settings = await anyio.to_thread.run_sync(self.load)
            fields = self._in_dotenv(settings, names)
            there = settings.sources.of_variables(Settings)
            values = {field: _inside(there, path_of_variable(field.path)) for field in fields}
            changes = await self._write(settings, values)
            await anyio.to_thread.run_sync(partial(self._comment_out, settings, fields))
            return changes

    def _in_dotenv(self, settings: Settings, names: Sequence[str]) -> list[SettingField]:
        sources = settings.sources
        if not names:
            infos = setting_infos(settings)
            names = [each.name for each in infos if each.locked_in]
        fields = []
        for name in names:
            if name.upper() in _NEVER_MOVED:
                raise SettingsError(f"{name}: says which files are read, so it stays in .env")
            field = find_setting(settings, name)
            variable = sources.variable(path_of_variable(field.path))
            if variable is None or variable.file is None:
                place = "the environment has it" if variable else "no .env file has it"
                raise SettingsError(f"{field.name}: {place}, so there is no line to move")
            if variable.name.upper() != field.variable:
                raise SettingsError(
                    f"{field.name}: {variable.name} in {variable.file} gives it together with "
                    f"others: write it as {field.variable} there first"
                )
            fields.append(field)
        return fields

    async def _write(
        self, settings: Settings, wanted: Mapping[SettingField, Any]
    ) -> list[SettingChange]:
        documents = self._documents or FileDocuments(settings.sources.data, secret={SECRETS})
        found = {name: await documents.read(name) for name in (SETTINGS, SECRETS)}
        texts = {
            SETTINGS: _text(found[SETTINGS], HEAD),
            SECRETS: _text(found[SECRETS], SECRETS_HEAD),
        }
        before = {field: _in_files(texts, field) for field in wanted}
        raw = {field: _from_text(field, value) for field, value in wanted.items()}
        for field, value in raw.items():
            _edit(texts, field, value)
        # Write the value as the settings have parsed it, for example the number 8080 for the text
        # "8080".
        checked = await anyio.to_thread.run_sync(Settings.load, self._folder, dict(texts))
        for field, value in raw.items():
            if value is not None and field.field is not None and not field.secret:
                _edit(texts, field, plain(value_at(checked, field.path)))
        await anyio.to_thread.run_sync(Settings.load, self._folder, dict(texts))
        for name in (SECRETS, SETTINGS):
            there = found[name]
            if texts[name] != _text(there, SECRETS_HEAD if name == SECRETS else HEAD):
                revision = there.revision if there else None
                await documents.write(name, texts[name], expected=revision)
        return [
            SettingChange(
                name=field.name,
                before=None if field.secret else before[field],
                after=None if field.secret else _in_files(texts, field),
                secret=field.secret,
            )
            for field in wanted
        ]

    def _comment_out(self, settings: Settings, fields: Sequence[SettingField]) -> None:
        sources = settings.sources
        moved = {
            field.variable: f"{field.name} in {place}"
            for field in fields
            for place in [sources.data / (SECRETS if field.secret else SETTINGS)]
        }
        for path, names in sources.dotenv:
            if not any(name.upper() in moved for name in names):
                continue
            text = path.read_text("utf-8")
            now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
            write_whole(sources.data / ENV_COPIES / f"{path.name}.{now}", text.encode())
            lines = []
            for binding in parse_stream(StringIO(text)):
                if binding.key is not None and binding.key.upper() in moved:
                    lines.append(f"# {binding.key} is {moved[binding.key.upper()]} now\n")
                else:
                    lines.append(binding.original.string)
            _replace(path, "".join(lines))


def _check_unlocked(settings: Settings, field: SettingField) -> None:
    sources = settings.sources
    variable = variable_of(sources, sources.of_variables(Settings), field)
    if variable is None:
        return
    if variable.file is None:
        raise SettingLocked(
            f"{field.name}: the variable {variable.name} of the environment gives the value: "
            "remove the variable where the bot is started, then start the bot again"
        )
    raise SettingLocked(
        f"{field.name}: {variable.name} in {variable.file} gives the value: change it there, or "
        f"move the line into the settings with `nekro set --from-env {field.name}`"
    )


def _edit(texts: dict[str, str], field: SettingField, value: Any) -> None:
    """Write a value into the text of its file, and remove it from the text of the other file.
    Secrets are in ``secrets.toml``, all other values in ``settings.toml``."""
    path, own = toml_path(field.path), SECRETS if field.secret else SETTINGS
    other = SETTINGS if field.secret else SECRETS
    try:
        texts[other] = without_value(texts[other], path, field.comment)
        if value is None:
            texts[own] = without_value(texts[own], path, field.comment)
        else:
            texts[own] = with_value(texts[own], path, value, field.comment)
    except ValueError as error:
        raise SettingsError(f"{own}: {error}") from None


def _in_files(texts: Mapping[str, str], field: SettingField) -> Any:
    for text in texts.values():
        try:
            found = _inside(parse_toml(text), toml_path(field.path))
        except TomlFault:
            continue
        if found is not None:
            return found
    return None


def _inside(values: Mapping[str, Any], path: FieldPath) -> Any:
    there: Any = values
    for part in path:
        there = there.get(part) if isinstance(there, Mapping) else None
    return there


def _from_text(field: SettingField, value: Any) -> Any:
    """Return the value of a text that an operator wrote. Unless the setting itself is a text, the
    text is read as JSON or TOML."""
    if not isinstance(value, str):
        return value
    if field.field is not None and _is_text(field.schema):
        return value
    for read in (json.loads, lambda text: tomllib.loads(f"value = {text}")["value"]):
        try:
            found = read(value)
        except ValueError:
            continue
        return found
    return value


def _is_text(schema: Mapping[str, Any]) -> bool:
    kinds = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    return all(each.get("type") == "string" for each in kinds)


def _text(document: Document | None, head: str) -> str:
    return document.text if document else head


def _replace(path: Path, text: str) -> None:
    """Replace the content of a ``.env`` file, with the same permissions."""
    mode = path.stat().st_mode & 0o777
    write_whole(path, text.encode())
    path.chmod(mode)
