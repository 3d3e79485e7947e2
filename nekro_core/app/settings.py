"""Reads all settings: from ``data/settings.toml``, and in NoneBot's way from ``.env``,
``.env.{ENVIRONMENT}`` and the environment, which take precedence over the file.

Each room defines its settings in its own module. This module only gives them their names. Two
underscores separate the parts of a nested name: ``NEKRO_LLM__BASE_URL`` is ``nekro_llm.base_url``,
and ``base_url`` of the table ``[llm]`` in the file.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args, get_origin

from nonebot.config import BaseSettings
from nonebot.config import SettingsError as UnreadableSetting
from pydantic import (
    BaseModel,
    Field,
    IPvAnyAddress,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_core import ErrorDetails

from nekro_core.agent.settings import AgentSettings
from nekro_core.app.adapter_directory import AdapterDirectory
from nekro_core.app.model_roles import check_roles
from nekro_core.app.nonebot_settings import with_nonebot_settings
from nekro_core.app.settings_file import SECRETS
from nekro_core.app.settings_sources import (
    SettingsError,
    SettingsSources,
    toml_path,
    unknown_name,
)
from nekro_core.app.web_server_settings import WebServerSettings
from nekro_core.backup.settings import BackupSettings
from nekro_core.cluster.partition_log import DEFAULT_PARTITIONS, MOST_PARTITIONS
from nekro_core.cluster.settings import S3Settings
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.llm.embedded.settings import EmbeddedSettings
from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.role_settings import DEFAULT, RoleSettings
from nekro_core.llm.roles import ModelRole
from nekro_core.llm.settings import LLMSettings
from nekro_core.memory.settings import MemorySettings
from nekro_core.operator.alerts.settings import AlertSettings
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.policy.permissions import CommandSettings
from nekro_core.policy.settings import TriggerSettings
from nekro_core.sandbox.preview import PreviewSettings
from nekro_core.sandbox.settings import SandboxSettings
from nekro_core.speech.settings import SpeechSettings
from nekro_core.store import StoreSettings
from nekro_core.system.live_settings import AFTER_RESTART
from nekro_core.system.logs.settings import LogSettings
from nekro_core.system.telemetry.settings import MetricsSettings, TraceSettings
from nekro_core.timers.settings import TimerSettings
from nekro_core.tools.mcp_client import McpSettings

SECRET_NAME = re.compile(r"token|key|secret|password", re.IGNORECASE)
"""Matches the names of settings whose values must not appear in logs or errors."""

_NO_NATIVE_CALLS = (
    "NEKRO_AGENT__MODE: tools needs a model that calls functions, and the embedded one only writes "
    "code: name an endpoint (NEKRO_LLM__BASE_URL, NEKRO_LLM__MODEL), or leave the mode at code"
)


class Settings(BaseSettings):
    """All settings. While the bot runs, `nekro_core.app.running_settings` writes changed values
    into the sections, except values of settings that are marked with `AFTER_RESTART`."""

    host: IPvAnyAddress = Field(
        default="127.0.0.1", validate_default=True, json_schema_extra=AFTER_RESTART
    )
    """The address on which the web server listens. ``0.0.0.0`` means all of the machine."""
    port: int = Field(default=8080, ge=0, le=65535, json_schema_extra=AFTER_RESTART)
    """The port of the web server. With 0, the kernel chooses a free one."""
    nekro_data_dir: Path = Field(default=Path("data"), json_schema_extra=AFTER_RESTART)
    """The folder for all files that a running bot writes."""
    nekro_database_url: str = Field(default="", json_schema_extra=AFTER_RESTART)
    """The database, as a Tortoise URL. If it is empty, an SQLite file in the data folder is
    used."""
    nekro_cluster_url: SecretStr = Field(default=SecretStr(""), json_schema_extra=AFTER_RESTART)
    """The NATS servers of the cluster, for ``nekro gateway`` and ``nekro worker``:
    ``nats://127.0.0.1:4222``, or ``tls://USER:PASSWORD@HOST:4222`` on another machine. ``nekro
    run`` does not use it."""
    nekro_cluster_partitions: int = Field(
        default=DEFAULT_PARTITIONS, ge=1, le=MOST_PARTITIONS, json_schema_extra=AFTER_RESTART
    )
    """The number of groups of chats that the workers of a cluster share among them. The first start
    fixes it for ever; more workers than groups are useless."""
    nekro_cluster_objects: str = Field(default="nats", json_schema_extra=AFTER_RESTART)
    """Where the processes of a cluster keep media and the files of boxes: ``nats``, or
    ``s3://BUCKET/FOLDER``. It is the same in all processes."""
    nekro_s3: S3Settings = Field(default_factory=S3Settings, json_schema_extra=AFTER_RESTART)
    nekro_node: str = Field(
        default="", max_length=64, pattern=r"^[A-Za-z0-9_-]*$", json_schema_extra=AFTER_RESTART
    )
    """The name of this process in the cluster; each process needs another one. If it is empty, the
    name consists of the role, the machine's name and a sign of the data folder."""
    nekro_documents: Literal["files", "database"] = Field(
        default="files", json_schema_extra=AFTER_RESTART
    )
    """Where settings, policies, personas, plugins' configurations and platforms' accounts lie.
    ``files``: in the data folder alone. ``database``: in the database, for several processes that
    share one; the files of the data folder are copies, which follow within a second and can be
    edited as before."""
    nekro_platforms: tuple[str, ...] = Field(default=(), json_schema_extra=AFTER_RESTART)
    """The enabled adapters, by the names in their manifests: ``["telegram"]``. Adapters that always
    run need no entry."""
    nekro_llm: LLMSettings = Field(default_factory=LLMSettings)
    nekro_models: dict[str, ModelGroupSettings] = Field(default_factory=dict)
    """Further models, by the names that plugins and chains use for them."""
    nekro_roles: RoleSettings = Field(default_factory=RoleSettings)
    nekro_embedded: EmbeddedSettings = Field(default_factory=EmbeddedSettings)
    nekro_sandbox: SandboxSettings = Field(
        default_factory=SandboxSettings, json_schema_extra=AFTER_RESTART
    )
    nekro_preview: PreviewSettings = Field(
        default_factory=PreviewSettings, json_schema_extra=AFTER_RESTART
    )
    nekro_web: WebServerSettings = Field(
        default_factory=WebServerSettings, json_schema_extra=AFTER_RESTART
    )
    nekro_agent: AgentSettings = Field(default_factory=AgentSettings)
    nekro_trigger: TriggerSettings = Field(default_factory=TriggerSettings)
    nekro_store: StoreSettings = Field(
        default_factory=StoreSettings, json_schema_extra=AFTER_RESTART
    )
    nekro_backup: BackupSettings = Field(default_factory=BackupSettings)
    nekro_delivery: DeliverySettings = Field(default_factory=DeliverySettings)
    nekro_metrics: MetricsSettings = Field(default_factory=MetricsSettings)
    nekro_traces: TraceSettings = Field(
        default_factory=TraceSettings, json_schema_extra=AFTER_RESTART
    )
    nekro_alerts: AlertSettings = Field(default_factory=AlertSettings)
    nekro_log: LogSettings = Field(default_factory=LogSettings, json_schema_extra=AFTER_RESTART)
    nekro_speech: SpeechSettings = Field(
        default_factory=SpeechSettings, json_schema_extra=AFTER_RESTART
    )
    nekro_plugin: PluginSettings = Field(default_factory=PluginSettings)
    nekro_mcp: McpSettings = Field(default_factory=McpSettings)
    nekro_memory: MemorySettings = Field(default_factory=MemorySettings)
    nekro_timer: TimerSettings = Field(default_factory=TimerSettings)
    nekro_command: CommandSettings = Field(default_factory=CommandSettings)
    superusers: frozenset[str] = frozenset()
    """NoneBot's setting. These people are added to ``NEKRO_COMMAND__SUPER_USERS``."""
    command_start: tuple[str, ...] | None = None
    """NoneBot's setting: the prefixes of commands, unless ``NEKRO_COMMAND__PREFIXES`` is set."""
    _sources: SettingsSources | None = PrivateAttr(default=None)

    @field_validator("superusers", mode="before")
    @classmethod
    def _ids_are_texts(cls, value: object) -> object:
        return [str(each) for each in value] if isinstance(value, list | set | tuple) else value

    @cached_property
    def commands(self) -> CommandSettings:
        """Return the settings for commands, including those of NoneBot."""
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
        # An empty path would mean the current folder, in which the bot's data would be mixed with
        # the files of a checkout.
        return value or Path("data")

    @property
    def database_url(self) -> str:
        """Return the URL of the database."""
        return self.nekro_database_url or f"sqlite://{self.nekro_data_dir / 'nekro.sqlite3'}"

    def secrets(self) -> list[str]:
        """Return the values that must not appear in logs."""
        written = self._sources.secret_texts() if self._sources is not None else []
        return [*_secrets_of(self), *written]

    def come_from(self, newer: "Settings") -> None:
        """Use the sources and secrets of ``newer``, because its values were written into this
        object."""
        self._sources = newer._sources  # noqa: SLF001 - of this class

    def written(self) -> dict[str, str]:
        """Return the settings of ``.env`` and of the environment as texts, with lower-case names.
        Texts of settings that this class does not declare, such as those of adapters, are
        included."""
        others = {k: v for k, v in (self.model_extra or {}).items() if isinstance(v, str)}
        return others | self.sources.written()

    @property
    def calls_natively(self) -> bool:
        """Return True if a model that answers in chats can call functions natively."""
        names = self.nekro_roles.of(ModelRole.CHAT)
        return any(
            self.nekro_llm.configured if name == DEFAULT else name in self.nekro_models
            for name in names
        )

    @property
    def were_read(self) -> bool:
        """Return True if `load` made these settings, so that `sources` exist."""
        return self._sources is not None

    @property
    def sources(self) -> SettingsSources:
        """Return the content of the files and the environment when the settings were read. Raises
        `RuntimeError` if the settings were not made by `load`."""
        if self._sources is None:
            raise RuntimeError("these settings were not read from files: use Settings.load")
        return self._sources

    @classmethod
    def load(cls, folder: Path = Path(), texts: Mapping[str, str] | None = None) -> Self:
        """Read the ``.env`` files of ``folder``, the environment and the files in the data folder.

        ``texts`` replaces the texts of ``settings.toml`` and ``secrets.toml``, to check them before
        they are written. Raises `SettingsError`.
        """
        sources = SettingsSources.read(folder, texts)
        for name in sources.written():
            room = name.split("__")[0]
            if room.startswith("nekro_") and room not in cls.model_fields:
                known = [each for each in cls.model_fields if each.startswith("nekro_")]
                problem = unknown_name(room.upper(), [each.upper() for each in sorted(known)])
                raise SettingsError(f"{name.upper()}: {problem}")
        try:
            values = sources.values(cls)
            settings = cls(_env_file=None, **values)  # type: ignore[call-arg]  # NoneBot's own
        except ValidationError as error:
            faults = "\n".join(_in_words(fault, sources) for fault in error.errors())
            raise SettingsError(faults) from None
        except UnreadableSetting as error:
            raise SettingsError(_not_json(error)) from None
        settings._sources = sources
        check_roles(settings.nekro_roles, settings.nekro_models)
        agent = settings.nekro_agent
        if "tools" in (agent.mode, *agent.modes.values()) and not settings.calls_natively:
            raise SettingsError(_NO_NATIVE_CALLS)
        return settings


def adapter_settings(
    settings: Settings,
    adapters: AdapterDirectory | None = None,
    platforms: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the settings of adapters, NoneBot and its plugins in ``settings.toml`` and in the
    process environment, for ``nonebot.init``.

    NoneBot reads settings that no class declares only from ``.env`` files, so it would ignore such
    settings in the environment of a container. Values that are JSON are parsed, as NoneBot does in
    files, unless the adapter wants a text.

    Args:
        settings: The settings.
        adapters: The adapters that may be used; by default those of the settings.
        platforms: The platforms that are used; by default those of the settings.
    """
    adapters = settings.adapters if adapters is None else adapters
    platforms = settings.nekro_platforms if platforms is None else platforms
    written = {name.lower(): value for name, value in os.environ.items()}
    of_file = {
        name: value
        for name, value in (settings.model_extra or {}).items()
        if settings.were_read
        and (
            settings.sources.file_of(("adapters", name))
            or settings.sources.file_of(("nonebot", name))
        )
    }
    own = adapters.own_settings(platforms, {**of_file, **written})
    found = {
        name: json.dumps(value) if own.get(name) and not isinstance(value, str) else value
        for name, value in of_file.items()
    }
    return found | {
        name: written[name] if as_text else _json_or_text(written[name])
        for name, as_text in own.items()
        if name in written
    }


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def written_settings(folder: Path = Path()) -> Mapping[str, str]:
    """Return all settings in ``.env`` files and the environment as texts, with lower-case names."""
    return SettingsSources.read(folder, texts={}).written()


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


def _in_words(fault: ErrorDetails, sources: SettingsSources) -> str:
    parts = tuple(str(part) for part in fault["loc"])
    variable, file = sources.variable(parts), sources.file_of(parts)
    if variable or not file:
        name, place = "__".join(parts).upper(), ""
    else:
        line = sources.line(file, toml_path(parts))
        name = ".".join(toml_path(parts))
        place = str(sources.fault(file, line, ""))
    if fault["type"] == "extra_forbidden":
        # Do not show the value: it may be a key whose name is misspelled.
        known = sorted(_model_at(parts[:-1]).model_fields)
        above, sep = name.rpartition(parts[-1] if place else parts[-1].upper())[0], not place
        names = [f"{above}{each.upper() if sep else each}" for each in known]
        written = f"{above}{parts[-1].upper() if sep else parts[-1]}"
        return f"{place}{name}: {unknown_name(written, names)}"
    came = fault["input"]
    hidden = isinstance(came, Mapping) or SECRET_NAME.search(name) or file == SECRETS
    shown = "" if hidden else f" (came: {came!r})"
    return f"{place}{name}: {fault['msg'].removeprefix('Value error, ')}{shown}"


def _model_at(parts: Sequence[str]) -> type[BaseModel]:
    """Return the class of the section of settings at the path ``parts``. A part may be a name that
    the operator chose, if the setting is a dictionary of sections."""
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
