"""Finds and loads the modules of one plugin, so that the imports between these modules work as the
author wrote them.

A plugin may import its modules under a second name of its folder. Such imports are changed in the
source before it is compiled: ``from plugins.flowers.storage import x`` in the folder ``flowers``
becomes ``from .storage import x``. So only this plugin's own code can use the second name, and
`sys.modules` has no entry for it that another plugin could find. Imports through ``sys.path`` are
in `nekro_core.plugins.host.own_path_imports`.
"""

import ast
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from nekro_core.plugins.host.own_path_imports import OwnPathImport

_FRESH_S = 5.0


class FreshLoader(SourceFileLoader):
    """Loads a module without Python's bytecode cache if its file was edited less than 5 s ago. The
    cache compares times in whole seconds, so it would not notice a second edit in the same second.
    For a file that was edited so recently, this loader does not write the cache either.

    Args:
        fullname: The name of the module.
        path: The module's file.
        own_path: The plugin's own ``__import__``; None for that of Python.
    """

    def __init__(self, fullname: str, path: str, own_path: OwnPathImport | None = None) -> None:
        super().__init__(fullname, path)
        self._own_path = own_path

    def exec_module(self, module: ModuleType) -> None:
        """See `SourceFileLoader`."""
        if self._own_path is not None:
            vars(module)["__builtins__"] = self._own_path.builtins()
        super().exec_module(module)

    def get_code(self, fullname: str) -> CodeType:
        """See `SourceFileLoader`."""
        path = self.get_filename(fullname)
        if abs(time.time() - self.path_stats(path)["mtime"]) > _FRESH_S:
            code = super().get_code(fullname)
            if code is not None:
                return code
        return self.source_to_code(self.get_data(path), path)


class OwnModuleFinder(MetaPathFinder):
    """Finds the modules of one plugin.

    Args:
        root: The name under which the plugin's package is imported.
        own_name: The second name of the package; empty if there is none.
        own_path: The plugin's own ``__import__``; None if the plugin does not use ``sys.path``.
    """

    def __init__(self, root: str, own_name: str, own_path: OwnPathImport | None) -> None:
        self._root = root
        self._own_name = own_name
        self._own_path = own_path

    def finds(self, fullname: str) -> bool:
        """Return True if a module belongs to the plugin."""
        return fullname.startswith(f"{self._root}.")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        if path is None or not self.finds(fullname):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin and isinstance(spec.loader, SourceFileLoader):
            spec.loader = self.loader(fullname, spec.origin)
        return spec

    def loader(self, fullname: str, path: str) -> FreshLoader:
        """Make the loader for a module, also for the plugin's package itself."""
        if self._own_name:
            return OwnNameLoader(fullname, path, self._root, self._own_name, self._own_path)
        return FreshLoader(fullname, path, self._own_path)


class OwnNameLoader(FreshLoader):
    """Loads a module of a plugin, and changes its imports under the second name. Python's bytecode
    cache is not used for a module that has such imports."""

    def __init__(
        self,
        fullname: str,
        path: str,
        root: str,
        own_name: str,
        own_path: OwnPathImport | None = None,
    ) -> None:
        super().__init__(fullname, path, own_path)
        self._root = root
        self._own_name = own_name

    def get_code(self, fullname: str) -> CodeType:
        """See `SourceFileLoader`."""
        path = self.get_filename(fullname)
        data = self.get_data(path)
        if not _has_own_name(data, self._own_name):
            return super().get_code(fullname)
        tree = ast.parse(data, path)
        package = fullname if self.is_package(fullname) else fullname.rpartition(".")[0]
        depth = package.removeprefix(self._root).count(".")
        _Rewriter(self._own_name, self._root, depth).visit(tree)
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


def _has_own_name(data: bytes, own_name: str) -> bool:
    above, _, last = own_name.rpartition(".")
    return above.encode() in data and last.encode() in data


class _Rewriter(ast.NodeTransformer):
    """Changes the imports under the second name to relative imports. ``depth`` is the number of
    packages between the plugin's folder and the module."""

    def __init__(self, own_name: str, root: str, depth: int) -> None:
        self._own_name = own_name
        self._real = root.rpartition(".")[2]
        self._above, _, self._last = own_name.rpartition(".")
        self._level = depth + 1

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.stmt]:
        """Change ``from plugins.flowers.storage import x`` and ``from plugins import flowers``."""
        if node.level:
            return node
        if (rest := self._rest(node.module or "")) is not None:
            return _at(node, ast.ImportFrom(rest or None, node.names, self._level))
        if node.module != self._above:
            return node
        own = [each for each in node.names if each.name == self._last]
        others = [each for each in node.names if each.name != self._last]
        made: list[ast.stmt] = []
        if others:
            made.append(_at(node, ast.ImportFrom(node.module, others, 0)))
        if own:
            made.append(_at(node, self._package(own[0].asname or self._last)))
        return made

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        """Change ``import plugins.flowers.storage as s``, also without ``as``."""
        made: list[ast.stmt] = []
        for each in node.names:
            rest = self._rest(each.name)
            if rest is None:
                made.append(_at(node, ast.Import([each])))
                continue
            made += [_at(node, each) for each in self._imported(rest, each.asname)]
        return made

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Change ``importlib.import_module("plugins.flowers.storage")``."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name("import_module") | ast.Attribute(attr="import_module")):
                pass
            case _:
                return node
        match node.args, node.keywords:
            case [ast.Constant(value=str(name))], []:
                rest = self._rest(name)
            case _:
                return node
        if rest is None:
            return node
        dots = "." * self._level
        name = f"{dots}{rest}" if rest else f"{dots}.{self._real}"
        node.args = [ast.Constant(name), ast.Name("__package__", ast.Load())]
        return node

    def _rest(self, module: str) -> str | None:
        """Return the part of a module's name after the second name; None if the module's name does
        not begin with the second name."""
        if module == self._own_name:
            return ""
        head = f"{self._own_name}."
        return module.removeprefix(head) if module.startswith(head) else None

    def _imported(self, rest: str, asname: str | None) -> list[ast.stmt]:
        parent, _, last = rest.rpartition(".")
        if asname:
            if not rest:
                return [self._package(asname)]
            return [ast.ImportFrom(parent or None, [ast.alias(last, asname)], self._level)]
        # The code will use the expression `plugins.flowers.storage`, so make the object `plugins`.
        named = ast.parse(
            f"{self._above.partition('.')[0]} = __import__('types').SimpleNamespace()"
        ).body
        target = self._above.partition(".")[0]
        for part in [*self._above.split(".")[1:], self._last]:
            value = "_nekro_own" if part == self._last else "__import__('types').SimpleNamespace()"
            named += ast.parse(f"{target}.{part} = {value}").body
            target = f"{target}.{part}"
        loaded: list[ast.stmt] = []
        if rest:
            loaded = [ast.ImportFrom(parent or None, [ast.alias(last, "_nekro_")], self._level)]
        return [*loaded, self._package("_nekro_own"), *named]

    def _package(self, name: str) -> ast.stmt:
        """Return a statement that imports the plugin's package under this name."""
        return ast.ImportFrom(None, [ast.alias(self._real, name)], self._level + 1)


def _at(place: ast.stmt, node: ast.stmt) -> ast.stmt:
    for each in ast.walk(node):
        ast.copy_location(each, place)
    return node
