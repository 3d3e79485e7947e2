"""Keeps old names of a public module working, with a warning that contains the new name."""

import sys
import warnings
from collections.abc import Callable, Mapping


def old_names(
    module: str, names: Mapping[str, str], *, since: str, removed: str
) -> Callable[[str], object]:
    """Make the function ``__getattr__`` of a module in which names have changed.

    Args:
        module: The module's ``__name__``.
        names: Maps each old name to the new name in the same module.
        since: The first version with the new names.
        removed: The first version without the old names.

    Returns:
        A function. For an old name, it returns the object of the new name, with a
        `DeprecationWarning` at the line that uses the old name. For any other name, it raises
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
