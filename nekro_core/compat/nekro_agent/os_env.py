"""``OsEnv`` and the folders that existing plugins look for."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nekro_core.compat.nekro_agent.host import current_host

__all__ = [
    "DATA_DIR",
    "PLUGIN_DATA_DIR",
    "USER_UPLOAD_DIR",
    "WORKDIR_PLUGIN_DIR",
    "OsEnv",
]

_FOLDERS: Mapping[str, str] = {
    "DATA_DIR": ".",
    "USER_UPLOAD_DIR": "uploads",
    "PLUGIN_DATA_DIR": "plugin_data",
    "WORKDIR_PLUGIN_DIR": "plugins",
}


class _Folder(os.PathLike[str]):
    """A folder below the data folder of the bot whose plugin's code runs."""

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
    """Names of the environment, as they are when they are read."""

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
