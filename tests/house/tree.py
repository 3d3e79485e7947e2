"""Parses the files of `nekro_core`, `adapters` and `plugins` once. The files are never imported."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

TOPS = ("nekro_core", "adapters", "plugins")
GUEST = "nekro_core/sandbox/guest/"
"""The code that runs inside a box. It imports nothing of the package, which is missing there."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Imported:
    """An imported name: ``name`` of ``module``, or the module itself if ``name`` is empty."""

    module: str
    name: str = ""


@dataclass(frozen=True)
class Place:
    """Where a name is defined: a module and a node in it, or no node if the name is a module."""

    module: "Module"
    node: ast.AST | None


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body and of the ``if``, ``try`` and ``with`` blocks in it."""
    for each in body:
        yield each
        for field in ("body", "orelse", "handlers", "finalbody"):
            if isinstance(each, ast.If | ast.Try | ast.With):
                for inner in getattr(each, field, ()):
                    yield from statements(
                        inner.body if isinstance(inner, ast.ExceptHandler) else [inner]
                    )


def loads(call: ast.Call) -> bool:
    """Return True if a call imports or looks for a module whose name is a string.

    Examples: ``import_module("x")``, ``find_spec("x")`` and ``run(import_module, "x")``.
    """
    names = (getattr(each, "attr", getattr(each, "id", "")) for each in (call.func, *call.args))
    return not {"import_module", "find_spec", "__import__"}.isdisjoint(names)


class Module:
    """One file."""

    def __init__(self, path: PurePosixPath, text: str) -> None:
        self.path = str(path)
        self.text = text
        self.ast = ast.parse(text)
        self.is_package = path.name == "__init__.py"
        parts = path.parent.parts if self.is_package else path.with_suffix("").parts
        self.name = ".".join(parts)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every syntax node of the file. The list is made once."""
        return list(ast.walk(self.ast))

    @property
    def package(self) -> str:
        """The package at which a relative import of this file starts."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    def absolute(self, node: ast.ImportFrom) -> str:
        """The absolute name of the module that a ``from`` statement imports from."""
        if not node.level:
            return node.module or ""
        parts = self.package.split(".")
        base = parts[: len(parts) - node.level + 1]
        return ".".join([*base, node.module] if node.module else base)

    @cached_property
    def bindings(self) -> Mapping[str, ast.AST | Imported]:
        """The definition or import behind each name at the top level of the file."""
        bound: dict[str, ast.AST | Imported] = {}
        for each in statements(self.ast.body):
            if isinstance(each, Definition):
                bound[each.name] = each
            elif isinstance(each, ast.Import):
                for alias in each.names:
                    if alias.asname:
                        bound.setdefault(alias.asname, Imported(alias.name))
            elif isinstance(each, ast.ImportFrom):
                for alias in each.names:
                    bound.setdefault(
                        alias.asname or alias.name, Imported(self.absolute(each), alias.name)
                    )
            elif isinstance(each, ast.Assign):
                for target in each.targets:
                    if isinstance(target, ast.Name):
                        bound.setdefault(target.id, each.value)
            elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                bound.setdefault(each.target.id, each)
        return bound

    @cached_property
    def stars(self) -> list[str]:
        """The modules from which the file imports ``*``."""
        return [
            self.absolute(each)
            for each in statements(self.ast.body)
            if isinstance(each, ast.ImportFrom) and each.names[0].name == "*"
        ]

    @cached_property
    def exported(self) -> list[str] | None:
        """The names in ``__all__``, or None if the file has no ``__all__``."""
        value = self.bindings.get("__all__")
        if not isinstance(value, ast.List | ast.Tuple):
            return None
        return [str(each.value) for each in value.elts if isinstance(each, ast.Constant)]

    @cached_property
    def only_re_exports(self) -> bool:
        """True if this is an ``__init__`` that has only imports, a docstring and ``__all__``."""
        if not self.is_package:
            return False
        for each in statements(self.ast.body):
            match each:
                case (
                    ast.Import()
                    | ast.ImportFrom()
                    | ast.If()
                    | ast.Try()
                    | ast.Raise()
                    | ast.Pass()
                ):
                    pass
                case ast.Expr(value=ast.Constant()):
                    pass
                case ast.Assign(targets=[ast.Name(id="__all__")]):
                    pass
                case _:
                    return False
        return True


class Tree:
    """All files below one folder of the project.

    Args:
        root: The folder that contains `nekro_core`, `adapters` and `plugins`; each may be missing.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        found = (path for top in TOPS for path in sorted((root / top).rglob("*.py")))
        read = (
            Module(PurePosixPath(path.relative_to(root)), path.read_text("utf-8")) for path in found
        )
        self.modules = {module.name: module for module in read}

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules.values())

    def find(
        self, module: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()
    ) -> Place | None:
        """Find the definition of ``name`` of ``module``, through every re-export and alias.

        Returns:
            None if the definition is not in this tree.
        """
        if (module, name) in seen:
            return None
        seen |= {(module, name)}
        here = self.modules.get(module)
        if not name:
            return Place(here, None) if here else None
        bound = here.bindings.get(name) if here else None
        if here and bound is not None:
            if isinstance(bound, Imported):
                return self.find(bound.module, bound.name, seen)
            if isinstance(bound, ast.Name | ast.Attribute):
                return self.follow(here, bound, seen) or Place(here, bound)
            return Place(here, bound)
        if (inner := self.modules.get(f"{module}.{name}")) is not None:
            return Place(inner, None)
        for star in here.stars if here else ():
            if (place := self.find(star, name, seen)) is not None:
                return place
        return None

    def follow(
        self, module: Module, node: ast.expr, seen: frozenset[tuple[str, str]] = frozenset()
    ) -> Place | None:
        """Find the definition behind an expression such as ``Name`` or ``module.Name``."""
        if isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name):
            return self.find(module.name, node.id, seen)
        if isinstance(node, ast.Attribute):
            owner = self.follow(module, node.value, seen)
            if owner and owner.node is None:
                return self.find(owner.module.name, node.attr, seen)
            if owner and isinstance(owner.node, ast.ClassDef):
                for each in owner.node.body:
                    if isinstance(each, Definition) and each.name == node.attr:
                        return Place(owner.module, each)
        return None
