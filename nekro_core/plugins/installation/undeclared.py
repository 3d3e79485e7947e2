"""Finds packages that a plugin imports but does not name, because the environment for which it was
written always has them. The plugin's code is read, not run."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nekro_core.plugins.installation.inspection import python_files
from nekro_core.plugins.packages.nekro_agent_environment import OFFERED, PROVIDED, ROOT
from nekro_core.plugins.packages.own_environment import bot_version
from nekro_core.plugins.packages.requirements import PluginRequirement, poetry_names

_IMPORTERS = frozenset({"importlib.import_module", "import_module", "__import__"})


@dataclass(frozen=True, slots=True)
class UndeclaredPackage:
    """A package that a plugin imports and that the bot lacks. ``where`` is the ``file:line`` that
    first imports ``module``."""

    need: PluginRequirement
    module: str
    where: str
    named_by: str

    def __str__(self) -> str:
        return (
            f"{self.where}: it imports {self.module} and names no package for it; "
            f"{self.named_by} has {self.need.requirement}"
        )


def undeclared_packages(
    plugin: Path, item: str, declared: Sequence[PluginRequirement], lists: Path
) -> tuple[UndeclaredPackage, ...]:
    """Return the packages that a plugin imports but does not declare, and that the bot lacks.

    An imported module is recognized only if its name is in ``[tool.poetry.dependencies]`` of the
    ``pyproject.toml`` in the folder ``lists``, or if the plugin imports ``nekro_agent`` and the
    module belongs to a package of Nekro Agent's environment.
    """
    imported = _imported_modules(plugin)
    own = _own_modules(plugin)
    named = {canonicalize_name(each.requirement.name) for each in declared}
    poetry = poetry_names(lists)
    offered: Mapping[str, str] = OFFERED if ROOT in imported else {}
    found: dict[str, UndeclaredPackage] = {}
    for module, where in imported.items():
        by_poetry = poetry.get(canonicalize_name(module), "")
        name = offered.get(module, "") or by_poetry
        key = canonicalize_name(name)
        if not name or module in own or key in named | PROVIDED or bot_version(name):
            continue
        source = "its pyproject.toml" if by_poetry == name else "Nekro Agent's environment"
        need = PluginRequirement(Requirement(name), item)
        found.setdefault(key, UndeclaredPackage(need, module, where, source))
    return tuple(found.values())


def _own_modules(plugin: Path) -> set[str]:
    """Return the names of the modules in the plugin's folder. Some plugins add their folder to
    ``sys.path`` and import these modules by their names."""
    if plugin.is_file():
        return {plugin.stem}
    return {each.stem if each.suffix == ".py" else each.name for each in plugin.iterdir()}


def _imported_modules(plugin: Path) -> dict[str, str]:
    """Return each imported top-level module with the ``file:line`` that imports it first."""
    found: dict[str, str] = {}
    for path in python_files(plugin):
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # the loader will report the error
        name = path.name if plugin.is_file() else path.relative_to(plugin).as_posix()
        for module, line in _roots(tree):
            found.setdefault(module, f"{name}:{line}")
    return found


def _roots(tree: ast.AST) -> Iterator[tuple[str, int]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                waiting += node.orelse
                continue
            case ast.Import(names):
                yield from ((each.name.partition(".")[0], node.lineno) for each in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0], node.lineno
            case ast.Call(args=[ast.Constant(str(module)), *_]):
                if ast.unparse(node.func) in _IMPORTERS and not module.startswith("."):
                    yield module.partition(".")[0], node.lineno
            case _:
                pass
        waiting += reversed([*ast.iter_child_nodes(node)])
