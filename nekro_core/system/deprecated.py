"""Keeps old names of a public module working, with a warning that says the new name."""

import sys
import warnings
from collections.abc import Callable, Mapping


def old_names(
    module: str, names: Mapping[str, str], *, since: str, removed: str
) -> Callable[[str], object]:
    """Make the ``__getattr__`` of a module in which names have changed.

    Args:
        module: The module's ``__name__``.
        names: From each old name to the name in the same module that replaces it.
        since: The version that has the new names.
        removed: The first version without the old ones.

    Returns:
        A function that gives the object of the new name for an old one, with a
        `DeprecationWarning` at the line that uses it. For any other name it raises
        `AttributeError`.
    """

    def find(name: str) -> object:
        new = names.get(name)
        if new is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        text = f"{name} is called {new} since {since}; {name} is removed in {removed}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], new)

    return find
