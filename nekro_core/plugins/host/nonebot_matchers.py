"""NoneBot's objects at the module level of a plugin."""

import sys

import nonebot


def init_missing_nonebot(error: Exception) -> bool:
    """Whether a plugin failed because NoneBot does not run here, and now one does.

    In a test, `nekro plugin check` or the terminal it gets a driver that serves nothing, so what a
    plugin hangs on it is never called. A running bot has its own (`nekro_core.app.server`) before
    any plugin is loaded.
    """
    try:
        nonebot.get_driver()
    except ValueError as missing:
        if str(missing) == str(error):
            nonebot.init(driver="~none", log_level="WARNING", _env_file=None)
            return True
    return False


def drop_matchers(module: str) -> None:
    """Remove the matchers that a plugin's module or its submodules registered."""
    if "nonebot.matcher" not in sys.modules:
        return
    from nonebot.matcher import matchers  # noqa: PLC0415 - most bots have none and need not load it

    for matcher in [each for group in [*matchers.values()] for each in group]:
        made_in = matcher.module_name or ""
        if made_in == module or made_in.startswith(f"{module}."):
            matcher.destroy()
