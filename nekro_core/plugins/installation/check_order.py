"""The order for the process that checks a plugin, and the result that this process writes.

The process reads an order, loads the plugin in a new, empty bot, and writes a result. It imports
this module before it gives up the right to change files outside of its throw-away folder. So this
module must load as little of the bot as possible: only `attempts`, which imports no other module of
the bot.
"""

import msgspec

from nekro_core.plugins.installation.attempts import Attempt

PROGRAM = ("nekro_core", "confined-check")
"""The module that the process runs and its first argument; see `nekro_core.__main__`. The code of
the process builds a whole bot, so it is in a room on a higher floor, which this room cannot
import."""
RESULT = "result.json"
DATA = "run/data"
"""The data folder of the bot in the process, below the throw-away folder. ``run`` is the working
folder of the process, so a plugin finds the folder ``data`` there, as with a real bot."""


class CheckOrder(msgspec.Struct, frozen=True):
    """The order for a check. ``plugin`` is the copy of the plugin in the throw-away folder,
    ``shown`` the path that its author knows. ``settings`` is the JSON of `PluginSettings`, the
    bot's settings that hold for all plugins."""

    plugin: str
    shown: str
    settings: str


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a check. ``status`` is 0, or 1 if the plugin or one of its tools cannot be
    used. ``loaded`` says whether the plugin was loaded; if not, ``problems`` says why. ``report``
    is the whole text for the author. ``attempts`` are the programs that the plugin tried to start
    and the files that it tried to write elsewhere. ``confined`` says whether the kernel refuses
    actions outside of the throw-away folder."""

    status: int
    report: str
    loaded: bool = False
    problems: str = ""
    attempts: list[Attempt] = []
    confined: bool = True
