"""Checks the error classes: each class of `nekro_core` derives from `NekroError`."""

import ast
import builtins
from collections.abc import Iterator

from tests.house.tree import GUEST, Module, Place, Tree

ROOT = "NekroError"
ERROR_NAMES = ("Error", "Exception", "Warning", "Interrupt", "Exit")
"""An imported base class is an error class if its name ends with one of these."""


def without_root(tree: Tree) -> dict[str, str]:
    """Error classes of `nekro_core` that do not derive from `NekroError`.

    If a class and its base class in the tree both lack the root, only the base class is listed,
    because a new root for the base class repairs both.

    Returns:
        A line ``path:line: Class(bases)`` for each ``path: Class``.
    """
    found = {}
    for module in tree:
        if not module.path.startswith("nekro_core/") or module.path.startswith(GUEST):
            continue
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and _is_topmost(tree, Place(module, node)):
                bases = ", ".join(map(ast.unparse, node.bases))
                found[f"{module.path}: {node.name}"] = (
                    f"{module.path}:{node.lineno}: {node.name}({bases})"
                )
    return found


def _is_topmost(tree: Tree, place: Place) -> bool:
    assert isinstance(place.node, ast.ClassDef)
    if place.node.name == ROOT or not _is_error(tree, place) or _has_root(tree, place):
        return False
    return not any(_is_error(tree, base) for base in _bases(tree, place))


def _bases(tree: Tree, place: Place) -> Iterator[Place]:
    """The bases of a class that are in the tree."""
    assert isinstance(place.node, ast.ClassDef)
    for base in place.node.bases:
        found = tree.follow(place.module, base)
        if found and isinstance(found.node, ast.ClassDef) and found.node is not place.node:
            yield found


def _has_root(tree: Tree, place: Place) -> bool:
    assert isinstance(place.node, ast.ClassDef)
    return place.node.name == ROOT or any(_has_root(tree, base) for base in _bases(tree, place))


def _is_error(tree: Tree, place: Place) -> bool:
    assert isinstance(place.node, ast.ClassDef)
    return any(_names_error(place.module, base) for base in place.node.bases) or any(
        _is_error(tree, base) for base in _bases(tree, place)
    )


def _names_error(module: Module, base: ast.expr) -> bool:
    name = ast.unparse(base).split("[")[0]
    if name in module.bindings or "." in name:
        return name.endswith(ERROR_NAMES)
    builtin = getattr(builtins, name, None)
    return isinstance(builtin, type) and issubclass(builtin, BaseException)
