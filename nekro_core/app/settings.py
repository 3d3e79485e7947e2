"""Reads all settings as NoneBot does: from ``.env``, ``.env.{ENVIRONMENT}`` and the environment.

Each room defines its settings in its own module. This module only gives them their names. Two
underscores separate the parts of a nested name: ``NEKRO_LLM__BASE_URL`` is ``nekro_llm.base_url``.
"""

import difflib
import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast, get_args, get_origin

from dotenv import dotenv_values
from nonebot.config import BaseSettings
from nonebot.config import SettingsError as UnreadableSetting
from pydantic import BaseModel, Field, IPvAnyAddress, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails

from nekro_core.agent.settings import AgentSettings
from nekro_core.app.adapters import AdapterDirectory
from nekro_core.app.nonebot_settings import with_nonebot_settings
from nekro_core.app.web_server_settings import WebServerSettings
from nekro_core.backup.settings import BackupSettings
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.llm.embedded import EmbeddedSettings
from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.settings import LLMSettings
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.policy.permissions import CommandSettings
from nekro_core.policy.settings import TriggerSettings
from nekro_core.sandbox.preview import PreviewSettings
from nekro_core.sandbox.settings import SandboxSettings
from nekro_core.speech.settings import SpeechSettings
from nekro_core.store import StoreSettings
from nekro_core.system.errors import NekroError
from nekro_core.timers.settings import TimerSettings
from nekro_core.tools.mcp_client import McpSettings

SECRET_NAME = re.compile(r"token|key|secret|password", re.IGNORECASE)
"""Matches the names of settings whose values must not appear in logs or errors."""

_NO_NATIVE_CALLS = (
    "NEKRO_AGENT__MODE: tools needs a model that calls functions, and the embedded one only writes "
    "code: name an endpoint (NEKRO_LLM__BASE_URL, NEKRO_LLM__MODEL), or leave the mode at code"
)


class SettingsError(NekroError):
    """A setting is wrong. The text has the setting's name as the operator wrote it, and says what
    was expected."""


class Settings(BaseSettings):
    """All settings, which the operator makes before the start."""

    host: IPvAnyAddress = Field(default="127.0.0.1", validate_default=True)
    port: int = Field(default=8080, ge=0, le=65535)
    nekro_data_dir: Path = Path("data")
    """The folder for all files that a running bot writes."""
    nekro_database_url: str = ""
    """The database, as a Tortoise URL. If it is empty, an SQLite file in the data folder is
    used."""
    nekro_platforms: tuple[str, ...] = ()
    """The enabled adapters, by the names in their manifests: ``["telegram"]``. Adapters that always
    run need no entry."""
    nekro_llm: LLMSettings = LLMSettings()
    nekro_models: dict[str, ModelGroupSettings] = Field(default_factory=dict)
    """Further models, by the names that plugins use for them."""
    nekro_embedded: EmbeddedSettings = EmbeddedSettings()
    nekro_sandbox: SandboxSettings = SandboxSettings()
    nekro_preview: PreviewSettings = PreviewSettings()
    nekro_web: WebServerSettings = WebServerSettings()
    nekro_agent: AgentSettings = AgentSettings()
    nekro_trigger: TriggerSettings = TriggerSettings()
    nekro_store: StoreSettings = StoreSettings()
    nekro_backup: BackupSettings = BackupSettings()
    nekro_delivery: DeliverySettings = DeliverySettings()
    nekro_speech: SpeechSettings = SpeechSettings()
    nekro_plugin: PluginSettings = PluginSettings()
    nekro_mcp: McpSettings = McpSettings()
    nekro_timer: TimerSettings = TimerSettings()
    nekro_command: CommandSettings = CommandSettings()
    superusers: frozenset[str] = frozenset()
    """NoneBot's setting. These people are added to ``NEKRO_COMMAND__SUPER_USERS``."""
    command_start: tuple[str, ...] | None = None
    """NoneBot's setting: the prefixes of commands, unless ``NEKRO_COMMAND__PREFIXES`` is set."""

    @field_validator("superusers", mode="before")
    @classmethod
    def _ids_are_texts(cls, value: object) -> object:
        return [str(each) for each in value] if isinstance(value, list | set | tuple) else value

    @property
    def commands(self) -> CommandSettings:
        """Return the settings for commands, with those of NoneBot added."""
        return with_nonebot_settings(
            self.nekro_command,
            self.superusers,
            self.command_start,
            self.adapters.superuser_platforms,
        )

    @cached_property
    def adapters(self) -> AdapterDirectory:
        """Return the adapters that were found. Their manifests are read at the first access."""
        return AdapterDirectory.find(self.nekro_data_dir.absolute(), self.nekro_platforms)

    @field_validator("nekro_data_dir", mode="before")
    @classmethod
    def _not_here(cls, value: object) -> object:
        # An empty path would mean the current folder, where data would mix with a checkout's files.
        return value or Path("data")

    @property
    def database_url(self) -> str:
        """Return the URL of the database."""
        return self.nekro_database_url or f"sqlite://{self.nekro_data_dir / 'nekro.sqlite3'}"

    def secrets(self) -> list[str]:
        """Return the values that must not appear in logs."""
        return _secrets_of(self)

    @classmethod
    def load(cls, folder: Path = Path()) -> Self:
        """Read the files of ``folder`` and the environment. Raises `SettingsError`."""
        for name in written_settings(folder):
            room = name.split("__")[0]
            if room.startswith("nekro_") and room not in cls.model_fields:
                raise SettingsError(f"{name.upper()}: {_unknown(room, cls)}")
        try:
            settings = cls(_env_file=_files(folder))  # type: ignore[call-arg]  # NoneBot's own
        except ValidationError as error:
            raise SettingsError("\n".join(_in_words(fault) for fault in error.errors())) from None
        except UnreadableSetting as error:
            raise SettingsError(_not_json(error)) from None
        agent = settings.nekro_agent
        if "tools" in (agent.mode, *agent.modes.values()) and not settings.nekro_llm.configured:
            raise SettingsError(_NO_NATIVE_CALLS)
        return settings


def adapter_settings(settings: Settings) -> dict[str, Any]:
    """Return the adapters' settings in the process environment, for ``nonebot.init``.

    NoneBot reads the names of undeclared settings only from files, so it would ignore those in a
    container's environment. Values that are JSON are parsed, as NoneBot does in files, unless the
    adapter wants a text.
    """
    return adapter_environment(settings.adapters, settings.nekro_platforms)


def adapter_environment(adapters: AdapterDirectory, wanted: Sequence[str]) -> dict[str, Any]:
    """Return the settings of the adapters in ``wanted`` that are in the process environment."""
    written = {name.lower(): value for name, value in os.environ.items()}
    own = adapters.own_settings(wanted, written)
    return {
        name: written[name] if as_text else _json_or_text(written[name])
        for name, as_text in own.items()
    }


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def written_settings(folder: Path = Path()) -> Mapping[str, str]:
    """Return all settings in the files and the environment as texts, with lower-case names."""
    names = {
        name.lower(): value or ""
        for path in _files(folder)
        if path.is_file()
        for name, value in dotenv_values(path).items()
    }
    return names | {name.lower(): value for name, value in os.environ.items()}


def _secrets_of(model: BaseModel) -> list[str]:
    found = []
    for _, value in model:
        if isinstance(value, SecretStr):
            found.append(value.get_secret_value())
        elif isinstance(value, BaseModel):
            found += _secrets_of(value)
        elif isinstance(value, Mapping):
            found += [
                s
                for each in value.values()
                if isinstance(each, BaseModel)
                for s in _secrets_of(each)
            ]
    return found


def _files(folder: Path) -> tuple[Path, Path]:
    first = folder / ".env"
    named = dotenv_values(first).get("ENVIRONMENT") if first.is_file() else None
    environment = os.environ.get("ENVIRONMENT") or named or "prod"
    return first, folder / f".env.{environment}"


def _in_words(fault: ErrorDetails) -> str:
    parts = [str(part) for part in fault["loc"]]
    name = "__".join(parts).upper()
    if fault["type"] == "extra_forbidden":
        # The value is not shown, because it may be a key whose name is misspelled.
        return f"{name}: {_unknown(parts[-1], _model_at(parts[:-1]), parts[:-1])}"
    came = fault["input"]
    hidden = isinstance(came, Mapping) or SECRET_NAME.search(name)
    shown = "" if hidden else f" (came: {came!r})"
    return f"{name}: {fault['msg'].removeprefix('Value error, ')}{shown}"


def _unknown(name: str, model: type[BaseModel], above: Sequence[str] = ()) -> str:
    known = [field for field in model.model_fields if above or field.startswith("nekro_")]
    close = difflib.get_close_matches(name.lower(), known, 1, 0.7)
    if close:
        return f"did you mean {'__'.join((*above, close[0])).upper()}?"
    return f"no such setting; there are {', '.join(sorted(known)).upper()}"


def _model_at(parts: Sequence[str]) -> type[BaseModel]:
    """Return the model of settings at the path ``parts``. A part may be a name that the operator
    chose, if the setting is a dictionary of models."""
    found: Any = Settings
    for part in parts:
        if get_origin(found) is dict:
            found = get_args(found)[1]
        else:
            found = found.model_fields[part].annotation
    return cast("type[BaseModel]", found)


def _not_json(error: UnreadableSetting) -> str:
    # The setting's name is only in the text of NoneBot's error.
    named = re.search('"(.+)"', str(error))
    name = named[1].upper() if named else str(error)
    return f"""{name}: not readable as JSON; a list is written ["one", "two"]"""
