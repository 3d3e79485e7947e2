"""Makes the imports of a start quicker. Call `quicken_imports` before the first of them."""

import gc
import sys
from types import ModuleType
from typing import cast


def quicken_imports() -> None:
    """Switch the garbage collector off, and leave out the command-line client of httpx.

    Imported modules are never garbage, and collections during the imports take half a second of
    the start. The server enables the collector again once the bot answers.

    If `rich` is installed, ``import httpx`` also imports a client for the command line, with
    `rich` and `pygments`: 71 modules, 35 ms and 3 MiB. If that import fails, as it does where
    `rich` is not installed, httpx has a function in its place that says so.
    """
    gc.disable()
    modules = cast("dict[str, ModuleType | None]", sys.modules)
    modules.setdefault("httpx._main", None)  # Python refuses the import of a module that is None.
