"""Supports plugins that use NoneBot at module level: initializes NoneBot for tests, and removes the
matchers of such plugins."""

import sys

import nonebot

from nekro_core.plugins.host.isolation.log_names import name_plugins_in_log


def init_missing_nonebot(error: Exception) -> bool:
    """If a plugin's import failed because NoneBot is not initialized, initialize it and return
    True.

    This happens in tests, `nekro plugin check` and the terminal. There, the driver does not serve
    requests, so functions that a plugin registers with it are never called. A running bot
    initializes NoneBot (`nekro_core.app.server`) before it loads plugins.
    """
    try:
        nonebot.get_driver()
    except ValueError as missing:
        if str(missing) == str(error):
            nonebot.init(driver="~none", log_level="WARNING", _env_file=None)
            name_plugins_in_log()
            return True
    return False


def drop_matchers(module: str) -> None:
    """Remove the matchers that a plugin's module or its submodules registered."""
    if "nonebot.matcher" not in sys.modules:
        return
    from nonebot.matcher import matchers  # noqa: PLC0415 - most bots do not need it

    for matcher in [each for group in [*matchers.values()] for each in group]:
        made_in = matcher.module_name or ""
        if made_in == module or made_in.startswith(f"{module}."):
            matcher.destroy()
