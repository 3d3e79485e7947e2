"""The objects of ``nekro_agent.core``: settings, log, environment, folders and plugin list."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import loguru
from loguru import logger

from nekro_core.compat.nekro_agent.host import NekroAgentHost, current_host
from nekro_core.compat.nekro_agent.models.functions import get_model_group_info, model_groups
from nekro_core.plugins.authoring.plugin_key import folded_key
from nekro_core.plugins.host.listing import PluginInfo, PluginState


def _super_users(host: NekroAgentHost) -> list[str]:
    ids = {person.partition(":")[2] for person in host.command.super_users}
    return sorted(ids - {"*"})


def _accounts(host: NekroAgentHost) -> str:
    return next(iter(host.store.accounts.instances("onebot_v11")), "")


_READ: Mapping[str, Callable[[NekroAgentHost], Any]] = {
    "AI_CHAT_PRESET_NAME": lambda host: host.agent.names[0],
    "AI_CHAT_PRESET_SETTING": lambda host: host.agent.persona,
    "AI_CHAT_DEFAULT_PRESET_ID": lambda _: -1,
    "AI_CHAT_CONTEXT_MAX_LENGTH": lambda host: host.agent.prompt.history,
    "AI_CHAT_CONTEXT_EXPIRE_SECONDS": lambda _: 0,
    "AI_CHAT_RANDOM_REPLY_PROBABILITY": lambda _: 0.0,
    "AI_CHAT_TRIGGER_REGEX": lambda _: [],
    "AI_CHAT_IGNORE_REGEX": lambda _: [],
    "AI_IGNORED_PREFIXES": lambda _: [],
    "AI_CHAT_DAILY_REPLY_LIMIT": lambda _: 0,
    "AI_DEBOUNCE_WAIT_SECONDS": lambda host: host.trigger.debounce_s,
    "AI_GENERATE_TIMEOUT": lambda host: host.llm.total_s,
    "AI_SCRIPT_MAX_RETRY_TIMES": lambda host: host.agent.turn.max_repairs,
    "SUPER_USERS": _super_users,
    "BOT_QQ": _accounts,
    "ADMIN_CHAT_KEY": lambda _: "",
    "DEFAULT_PROXY": lambda _: os.environ.get("HTTPS_PROXY") or os.environ.get("HTTP_PROXY") or "",
    "SYSTEM_LANG": lambda host: {"zh": "zh-CN", "ja": "ja-JP"}.get(host.agent.language, "en-US"),
    "PLUGIN_ENABLED": lambda host: [each.key for each in host.listed() if each.key],
    "MODEL_GROUPS": lambda _: model_groups(),
    "USE_MODEL_GROUP": lambda _: "default",
    "FALLBACK_MODEL_GROUP": lambda _: "default",
    "DEBUG_MIGRATION_MODEL_GROUP": lambda _: "default",
    "SANDBOX_RUNNING_TIMEOUT": lambda host: int(host.run_seconds),
}


class CoreConfig:
    """The settings of the bot whose plugin is running. Plugins can only read them."""

    def __getattr__(self, name: str) -> Any:
        if name in _READ:
            return _READ[name](current_host())
        raise AttributeError(
            f"the configuration has no {name!r}; it has {', '.join(sorted(_READ))}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        del value
        raise AttributeError(f"{name}: a plugin can only read the bot's settings")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_READ})

    def get_model_group_info(self, model_name: str = "default", *_: Any) -> Any:
        """A model group (`ModelConfigGroup`) by its name. Raises `KeyError`, whose text lists all
        groups."""
        return get_model_group_info(model_name)

    def model_dump(self) -> dict[str, Any]:
        """All settings by name."""
        return {name: getattr(self, name) for name in _READ}


config = CoreConfig()


def get_sub_logger(name: str = "") -> "loguru.Logger":
    """A logger. Each line has ``name`` in its extra field ``plugin``."""
    return logger.bind(plugin=name)


_FOLDERS: Mapping[str, str] = {
    "DATA_DIR": ".",
    "USER_UPLOAD_DIR": "uploads",
    "PLUGIN_DATA_DIR": "plugin_data",
    "WORKDIR_PLUGIN_DIR": "plugins",
}


class _Folder(os.PathLike[str]):
    """A folder in the data folder of the bot whose plugin is running."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __fspath__(self) -> str:
        return str(current_host().reach.data_dir / self._name)

    __str__ = __fspath__

    def __truediv__(self, other: str | os.PathLike[str]) -> Path:
        return Path(self) / other

    def __getattr__(self, name: str) -> Any:
        return getattr(Path(self), name)


class _OsEnv:
    """The values that nekro-agent reads from the environment. Here each value is computed when a
    plugin reads it."""

    def __getattr__(self, name: str) -> Any:
        known: Mapping[str, Callable[[], Any]] = {
            "DATA_DIR": lambda: str(current_host().reach.data_dir),
            "ACCESS_TOKEN_EXPIRE_DAYS": lambda: 7,
            "RUN_IN_DOCKER": lambda: Path("/.dockerenv").exists(),
            "INSTANCE_NAME": lambda: "",
        }
        if name not in known:
            raise AttributeError(f"OsEnv has no {name!r}; it has {', '.join(sorted(known))}")
        return known[name]()


OsEnv = _OsEnv()
DATA_DIR = _Folder(_FOLDERS["DATA_DIR"])
USER_UPLOAD_DIR = _Folder(_FOLDERS["USER_UPLOAD_DIR"])
PLUGIN_DATA_DIR = _Folder(_FOLDERS["PLUGIN_DATA_DIR"])
WORKDIR_PLUGIN_DIR = _Folder(_FOLDERS["WORKDIR_PLUGIN_DIR"])


class PluginCollector:
    """The list of plugins, with a `PluginInfo` for each. A plugin cannot switch other plugins on or
    off."""

    def get_all_plugins(self) -> list[PluginInfo]:
        """All plugins, loaded or not."""
        return list(current_host().listed())

    def get_all_active_plugins(self) -> list[PluginInfo]:
        """The loaded plugins."""
        return [each for each in self.get_all_plugins() if each.state is PluginState.LOADED]

    def get_plugin(self, key: str) -> PluginInfo | None:
        """Return the plugin with this key, or None. The author and the module name in the key may
        be written in the plugin's own spelling."""
        wanted = {key, folded_key(key)}
        return next((each for each in self.get_all_plugins() if each.key in wanted), None)

    async def get_all_sandbox_methods(self, *_: Any) -> list[Any]:
        """The tools of all loaded plugins."""
        return [tool for each in self.get_all_active_plugins() for tool in each.tools]


plugin_collector = PluginCollector()
