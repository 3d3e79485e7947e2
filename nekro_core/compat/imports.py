"""The import system's part: façade modules that exist while a bot runs, and are found by nobody
afterwards."""

import importlib
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from nekro_core.compat.facades import FACADES


class Facade(ModuleType):
    """A module object of its own that re-exports ours.

    A name that is missing is an `ImportError` with a remedy: an `AttributeError` would lose the
    text on the way through ``from ... import``.
    """

    def __init__(self, name: str, modules: Collection[str]) -> None:
        super().__init__(name, "Names for existing plugins.")
        self._modules = modules

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        inner = f"{self.__name__}.{name}"
        # Python asks here before it looks for a module: ``from nekro_agent.api import message``.
        if inner in self._modules:
            return importlib.import_module(inner)
        offered = sorted(each for each in vars(self) if not each.startswith("_"))
        raise ImportError(
            f"{self.__name__} has no {name!r} here. It offers {', '.join(offered) or 'nothing'}; "
            "see nekro_core.api for what a plugin can use",
            name=self.__name__,
        )


class _FacadeFinder(MetaPathFinder, Loader):
    """Finds the façades of a table. Stays for the life of a bot: plugins import in handlers too."""

    def __init__(self, table: Mapping[str, Sequence[str]]) -> None:
        self._table = table
        self._roots = {name.partition(".")[0] for name in table}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        del path, target
        if fullname in self._table:
            inner = any(name.startswith(f"{fullname}.") for name in self._table)
            return ModuleSpec(fullname, self, origin="nekro_core.compat", is_package=inner)
        if fullname.partition(".")[0] in self._roots:
            raise ModuleNotFoundError(
                f"{fullname} is not offered here; there is {', '.join(sorted(self._table))}",
                name=fullname,
            )
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """See `Loader`."""
        return Facade(spec.name, self._table)

    def exec_module(self, module: ModuleType) -> None:
        """See `Loader`."""
        for behind in self._table[module.__name__]:
            ours = importlib.import_module(behind)
            names = ours.__all__
            vars(module).update({name: getattr(ours, name) for name in names})
            vars(module)["__all__"] = [*vars(module).get("__all__", ()), *names]

    def names(self) -> list[str]:
        """The modules that it made and that are still there."""
        return [
            name
            for name, module in sys.modules.items()
            if name.partition(".")[0] in self._roots and isinstance(module, Facade)
        ]


@contextmanager
def provided_names(table: Mapping[str, Sequence[str]] = FACADES) -> Iterator[None]:
    """While this is open, existing plugins' imports work. Enter it before plugins are loaded.

    Two bots of one process may each have it open; the last to leave takes the façades away. A
    real package of the same name that is installed is not touched and goes first.
    """
    finder = _FacadeFinder(table)
    # Behind the others, so that what is really installed is found first.
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        if not any(isinstance(each, _FacadeFinder) for each in sys.meta_path):
            for name in finder.names():
                del sys.modules[name]
