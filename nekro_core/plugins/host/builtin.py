"""Finds the built-in adapters and plugins, and makes the packages under which they are imported.

They are found by path in the checkout or the wheel. They are imported as
``nekro_builtin.adapters.*`` and ``nekro_builtin.plugins.*``: ``import plugins`` could import
another folder of this name, for example in the working directory.
"""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Literal

import nekro_core
from nekro_core.system.folder_listings import forget_listings

Sort = Literal["adapters", "plugins"]

NAMESPACE = "nekro_builtin"


def builtin_folder(sort: Sort) -> Path:
    """Get the folder of the built-in adapters or plugins. Raises `FileNotFoundError` if the
    installation is broken."""
    package = Path(nekro_core.__file__).parent
    for folder in (package / "_builtin" / sort, package.parent / sort):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"no built-in {sort} beside {package}: install nekro-core again")


def builtin_package(sort: Sort) -> str:
    """Get the name of the package under which the built-in adapters or plugins are imported."""
    return f"{NAMESPACE}.{sort}"


def items_in(folder: Path) -> tuple[str, ...]:
    """Get the sorted names of the modules and packages in a folder: ``x.py`` and
    ``x/__init__.py``."""
    if not folder.is_dir():
        return ()
    found = {path.stem for path in folder.glob("*.py")}
    found |= {path.parent.name for path in folder.glob("*/__init__.py")}
    return tuple(sorted(name for name in found if not name.startswith(("_", "."))))


def namespace(name: str, folder: Path) -> str:
    """Make the package ``name`` and its parent packages. Its modules are the files in
    ``folder``."""
    above, _, _ = name.rpartition(".")
    if above and above not in sys.modules:
        sys.modules[above] = _package(above, [])
    module = sys.modules.get(name)
    if module is None or list(module.__path__) != [str(folder)]:
        sys.modules[name] = _package(name, [str(folder)])
    forget_listings(folder)
    return name


def _package(name: str, path: list[str]) -> ModuleType:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None, is_package=True)
    module.__path__ = path
    return module
