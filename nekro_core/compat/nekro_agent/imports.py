"""Makes facades importable while a bot runs. A facade is a module with a name of nekro-agent."""

import dis
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

from loguru import logger

from nekro_core.compat.nekro_agent.facades import FACADES
from nekro_core.compat.nekro_agent.refused import REFUSED

Table = Mapping[str, Sequence[str]]
_IMPORT_FROM = dis.opmap["IMPORT_FROM"]
_IMPORTLIB = "importlib._bootstrap"
"""The part of Python that looks up the names of ``from package import name`` before the import
statement itself looks them up."""


class Facade(ModuleType):
    """A module with a name of nekro-agent that re-exports objects of nekro-core.

    A missing name raises an error whose text says what to do. In an import statement this is an
    `ImportError`, because ``from ... import`` would drop the text of an `AttributeError`. Elsewhere
    it is an `AttributeError`, which `hasattr` and `getattr` expect.
    """

    def __init__(self, name: str, offers: "_Offers") -> None:
        super().__init__(name, "Names for existing plugins.")
        self.__dict__["_offers"] = offers

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        try:
            return self._find(name)
        except ImportError as error:
            if _is_import(sys._getframe(1)):  # noqa: SLF001 - there is no other way to know
                raise
            raise AttributeError(str(error), name=name, obj=self) from None

    def _find(self, name: str) -> object:
        """Find a module below this one, or a name that another facade offers."""
        offers: _Offers = self.__dict__["_offers"]
        inner = f"{self.__name__}.{name}"
        # ``from nekro_agent.api import message`` calls ``__getattr__`` before Python looks for a
        # module of this name.
        if inner in offers.table or inner in REFUSED:
            return importlib.import_module(inner)
        if remedy := REFUSED.get(f"{self.__name__}:{name}"):
            raise ImportError(f"{self.__name__} has no {name!r} here: {remedy}", name=self.__name__)
        value = self.__dict__[name] = offers.anywhere(self.__name__, name)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # Importing the module ``nekro_agent.core.config`` makes Python set this module as the
        # attribute ``config`` of ``nekro_agent.core``. Plugins expect the settings object there, so
        # the module is not set.
        if isinstance(value, Facade) and name in self.__dict__.get("__all__", ()):
            return
        super().__setattr__(name, value)


def _is_import(caller: FrameType) -> bool:
    """Return True if ``caller`` looks up a name for an import statement."""
    instruction = caller.f_code.co_code[caller.f_lasti]
    return instruction == _IMPORT_FROM or caller.f_globals.get("__name__") == _IMPORTLIB


class _Offers:
    """Looks up the names that the facades of a table offer."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def of(self, module: str) -> Iterator[tuple[str, object]]:
        """Yield the names of one facade with their objects."""
        for line in self.table[module]:
            target, _, alias = line.partition(" as ")
            path, _, name = target.partition(":")
            module_object = importlib.import_module(path)
            if name:
                yield alias or name, getattr(module_object, name)
            elif alias:
                yield alias, module_object
            else:
                yield from ((each, getattr(module_object, each)) for each in module_object.__all__)

    @cached_property
    def _index(self) -> dict[str, str]:
        """Maps each name to the first facade that offers it."""
        facades: dict[str, str] = {}
        for module in self.table:
            for name, _ in self.of(module):
                facades.setdefault(name, module)
        return facades

    def where(self, name: str) -> str:
        """The facade that offers a name; empty if no facade does."""
        return self._index.get(name, "")

    def anywhere(self, module: str, name: str) -> object:
        """Find an object by its name in all facades. ``module`` is the module from which the plugin
        imports the name. This module does not offer the name or is not in the table. Some plugins
        import a name from a module that only imported the name itself. Raises `ImportError`."""
        where = self.where(name)
        if where:
            logger.info("{} does not offer {}: it is imported from {}", module, name, where)
            return dict(self.of(where))[name]
        if module not in self.table:
            said = f"{module} is not offered here, and no other module has {name!r}"
            raise ImportError(f"{said}; {_near(module, self.table)}", name=module)
        offered = ", ".join(sorted(each for each, _ in self.of(module)))
        raise ImportError(
            f"{module} has no {name!r} here, and no other module has it. It offers "
            f"{offered or 'nothing'}; see nekro_core.api for what plugins can use",
            name=module,
        )


def _refused(module: str) -> str:
    """The key in `REFUSED` that is a module or a package around it; empty if there is none."""
    while module and module not in REFUSED:
        module = module.rpartition(".")[0]
    return module


def _near(module: str, table: Table) -> str:
    """A part of an error text: the modules in the same package as an unknown module. A list of all
    modules would be too long."""
    package = module
    while package:
        package = package.rpartition(".")[0]
        beside = sorted(name for name in table if name.rpartition(".")[0] == package)
        if beside:
            return f"there is {', '.join(beside)}; docs/nekro-names.md lists every name"
    return "docs/nekro-names.md lists every name"


class _FacadeFinder(MetaPathFinder, Loader):
    """Finds the facades of a table when they are imported. It stays installed while a bot runs,
    because handlers may import modules too.

    Plugins import from more modules of nekro-agent than the table lists. So any module below a
    package of the table is found, and offers the names of all facades.
    """

    def __init__(self, table: Table, on_first_import: Callable[[], None]) -> None:
        self._table = table
        self._on_first_import: Callable[[], None] | None = on_first_import
        self._offers = _Offers(table)
        self._roots = {name.partition(".")[0] for name in table}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        del path, target
        if refused := _refused(fullname):
            raise ModuleNotFoundError(f"{refused} is not here: {REFUSED[refused]}", name=fullname)
        if fullname in self._table:
            inner = any(name.startswith(f"{fullname}.") for name in (*self._table, *REFUSED))
            return ModuleSpec(
                fullname, self, origin="nekro_core.compat.nekro_agent", is_package=inner
            )
        root, _, rest = fullname.partition(".")
        if root not in self._roots:
            return None
        if "." in rest and f"{root}.{rest.partition('.')[0]}" in self._table:
            return ModuleSpec(
                fullname, self, origin="nekro_core.compat.nekro_agent", is_package=True
            )
        raise ModuleNotFoundError(
            f"{fullname} is not offered here; {_near(fullname, self._table)}",
            name=fullname,
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """See `Loader`."""
        first, self._on_first_import = self._on_first_import, None
        if first is not None:
            first()
        return Facade(spec.name, self._offers)

    def exec_module(self, module: ModuleType) -> None:
        """See `Loader`."""
        if module.__name__ not in self._table:
            return
        names = dict(self._offers.of(module.__name__))
        vars(module).update(names)
        vars(module)["__all__"] = list(names)

    def names(self) -> list[str]:
        """The facades that are in `sys.modules`."""
        return [
            name
            for name, module in sys.modules.copy().items()  # other threads may import
            if name.partition(".")[0] in self._roots and isinstance(module, Facade)
        ]


@contextmanager
def install_facades(
    table: Table = FACADES, *, on_first_import: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Make the facades importable while the block is open. Enter the block before plugins are
    loaded.

    Several bots of one process may each enter a block. The facades are removed when the last block
    ends. If a real package of the same name is installed, the real package is imported.
    ``on_first_import`` is called when the first facade is imported, also by another bot's plugin.
    """
    finder = _FacadeFinder(table, on_first_import)
    if finder.names():  # another bot's plugins have imported them already
        on_first_import()
    # The finder is added after the other finders, so that an installed package is found first.
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        if not any(isinstance(each, _FacadeFinder) for each in sys.meta_path):
            for name in finder.names():
                del sys.modules[name]
