"""Lets a plugin import its own modules through the entries that it adds to ``sys.path``.

Published plugins write ``sys.path.insert(0, folder)`` and then ``from libs.config import TITLE``.
All plugins run in one process, and many of them have a folder ``libs``, ``core`` or ``utils``, but
`sys.modules` can have only one entry ``libs``. So such an import is carried out as an import of a
module below the plugin's own package, and `sys.modules` has no entry ``libs``.
"""

import builtins
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

_ADDS_PATH = b"sys.path"
_MOST_FILES, _MOST_BYTES = 500, 1024 * 1024
"""Maximum number of files of a plugin, and of bytes of each file, that are read to find out whether
the plugin uses ``sys.path``."""


def uses_search_path(folder: Path) -> bool:
    """Check whether a file of a plugin mentions ``sys.path``.

    Args:
        folder: The plugin's folder.

    Returns:
        True if one of the first 500 files does.
    """
    for path, _ in zip(sorted(folder.rglob("*.py")), range(_MOST_FILES), strict=False):
        try:
            with path.open("rb") as file:
                if _ADDS_PATH in file.read(_MOST_BYTES):
                    return True
        except OSError:
            continue
    return False


class OwnPathImport:
    """The ``__import__`` of one plugin's modules.

    It is called for each import statement in these modules, also for statements in functions that
    run later. If no entry that the plugin added to ``sys.path`` has the module, the module is
    imported as usual. Modules of Python's standard library are never replaced.

    Args:
        root: The name under which the plugin's package is imported.
        folder: The plugin's folder.
    """

    def __init__(self, root: str, folder: Path) -> None:
        self._root = root
        # The folder may be a link, and the plugin may have added the real path of its folder.
        self._folders = tuple(dict.fromkeys((folder, folder.resolve())))

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - Python uses this name
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """See `builtins.__import__`."""
        package = self._package_of(name) if level == 0 else ""
        if not package:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        own = f"{package}.{name}"
        module = builtins.__import__(own, globals, locals, fromlist or ("*",), 0)
        if fromlist:
            return module
        return sys.modules[f"{package}.{name.partition('.')[0]}"]

    def builtins(self) -> dict[str, Any]:
        """Make the value of ``__builtins__`` for a module of the plugin."""
        return {**vars(builtins), "__import__": self}

    def _package_of(self, name: str) -> str:
        """Return the package of the plugin that contains a module; empty if the module does not
        belong to the plugin."""
        head = name.partition(".")[0]
        if head in sys.stdlib_module_names:
            return ""
        for entry in sys.path:
            place = Path(entry)
            for folder in self._folders:
                if f"{entry}/".startswith(f"{folder}/") and (
                    (place / head).is_dir() or (place / f"{head}.py").is_file()
                ):
                    return ".".join((self._root, *place.relative_to(folder).parts))
        return ""
