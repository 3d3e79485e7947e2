"""Lets the log show plugins with the names that ``nekro plugin list`` shows, instead of the
generated names of their packages."""

import re
from typing import TYPE_CHECKING

from loguru import logger
from nonebot.plugin import get_plugin_by_module_name

from nekro_core.plugins.host.isolation.code_owner import LOCAL_NAMESPACE, plugin_of_module

if TYPE_CHECKING:
    from loguru import Record

_MADE_UP = re.compile(rf"{LOCAL_NAMESPACE}[0-9a-f]{{8}}\.")


def with_plugin_names(text: str) -> str:
    """Replace generated names of packages in a text: ``nekro_local_7b4088b7.weather.api`` becomes
    ``local/weather.api``."""
    return _MADE_UP.sub("local/", text) if LOCAL_NAMESPACE in text else text


def name_plugins_in_log() -> None:
    """Let the log show ``local/weather`` as the origin of each line that this plugin logs. Call
    this after ``nonebot.init``, because that function also sets a patcher of the log, which shows
    the first part of a module's name."""
    logger.configure(patcher=_name_plugin)


def _name_plugin(record: "Record") -> None:
    module = record["name"] or ""
    # The result is a plugin that NoneBot itself has loaded.
    known = get_plugin_by_module_name(module) if module else None
    named = known.id_ if known else plugin_of_module(module)
    if named:
        record["extra"].setdefault("plugin", named)
    record["name"] = named or module.partition(".")[0]
