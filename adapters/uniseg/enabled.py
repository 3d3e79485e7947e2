"""Which platforms an operator has enabled. Nothing of them is imported before they are made."""

import difflib
import warnings
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

from nonebot import require
from nonebot.drivers import Driver

from nekro_core.api.adapter import Adapter, AdapterFactory, Host

PLATFORMS = (
    "telegram",
    "discord",
    "satori",
    "qq",
    "feishu",
    "kook",
    "milky",
    "console",
    "onebot_v12",
)
"""What can stand in ``NEKRO_PLATFORMS``: the adapter's name, the extra's and the module's."""
ELSEWHERE = ("mail", "matrix")
"""What can stand there too, and is no platform of uniseg's."""


def factories(settings: Mapping[str, Any]) -> Mapping[str, AdapterFactory]:
    """What makes the adapter of each platform in ``NEKRO_PLATFORMS``, imported now. Of one that
    cannot be imported it raises the reason: `ValueError` for a name that is none, `RuntimeError`
    where the extra is missing."""
    wanted = settings.get("nekro_platforms") or ()
    return {name: _factory(name) for name in wanted if name not in ELSEWHERE}


def _factory(name: str) -> AdapterFactory:
    if name not in PLATFORMS:
        known = sorted(PLATFORMS + ELSEWHERE)
        close = difflib.get_close_matches(name, known, 1)
        remedy = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
        return partial(_refuse, ValueError(f"NEKRO_PLATFORMS: no platform {name!r}; {remedy}"))
    try:
        with warnings.catch_warnings():
            # uniseg looks for adapters registered by then and says so; ours are told to it one by
            # one. Some of the stock adapters are older than what they use.
            warnings.simplefilter("ignore", RuntimeWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            # As a plugin, so that an operator's own plugin that needs it finds it loaded.
            require("nonebot_plugin_alconna")
            create: AdapterFactory = import_module(f".platforms.{name}", __package__).create
    except (ImportError, RuntimeError) as error:  # NoneBot's word for a plugin that is not there
        extra = name.replace("_", "-")
        missing = f"NEKRO_PLATFORMS has {name}, which is not installed: "
        remedy = f"pip install 'nekro-core[{extra}]' ({error})"
        return partial(_refuse, RuntimeError(missing + remedy))
    return create


def _refuse(reason: Exception, _host: Host, _driver: Driver) -> Adapter:
    raise reason
