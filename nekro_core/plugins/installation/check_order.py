"""What the process that checks a plugin is told, and what it answers.

The process reads an order, loads the plugin in a new, empty bot, and writes a result. It imports
this module before it gives up its rights, so this module imports nothing of the bot.
"""

import msgspec

from nekro_core.plugins.installation.attempts import Attempt

PROGRAM = ("nekro_core", "confined-check")
"""The module and the first argument of the process; see `nekro_core.__main__`. It builds a whole
bot, so its code is on a higher floor than this room."""
RESULT = "result.json"
DATA = "run/data"
"""Below the throw-away folder: the data folder of the check's bot. ``run`` is the working folder,
so that a plugin finds ``data`` where it would beside a real bot."""


class CheckOrder(msgspec.Struct, frozen=True):
    """What to check. ``plugin`` is a copy of the plugin in the throw-away folder, ``shown`` the
    path that its author knows. ``settings`` are the plugins' settings as JSON."""

    plugin: str
    shown: str
    settings: str


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a check. ``status`` is 0, or 1 if the plugin or a tool of it cannot be used;
    ``loaded`` is whether the plugin was loaded, ``problems`` says why not. ``report`` is the whole
    text for the author. ``confined`` is whether the kernel refused the attempts."""

    status: int
    report: str
    loaded: bool = False
    problems: str = ""
    attempts: list[Attempt] = []
    confined: bool = True
