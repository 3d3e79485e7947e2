"""Checks names: no two classes share a public name, and no old name is in use."""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests.house.tree import Definition, Function, Module, Tree, statements

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Named:
    """A public class, module or function, and where it is defined."""

    name: str
    kind: str
    path: str
    line: int = 0

    @property
    def where(self) -> str:
        """``path:line``, or only the path for a module or package."""
        return f"{self.path}:{self.line}" if self.line else self.path

    def __str__(self) -> str:
        return f"{self.where}: {self.kind} {self.name}"


def named(tree: Tree) -> Iterator[Named]:
    """Every public class, method, function, module and package."""
    packages = set()
    for module in tree:
        path = PurePosixPath(module.path)
        packages |= {str(parent) for parent in path.parents if len(parent.parts) > 1}
        if not path.name.startswith("_"):
            yield Named(path.stem, "module", module.path)
        yield from _defined(module, module.ast.body, "function")
    for package in sorted(packages):
        if not PurePosixPath(package).name.startswith("_"):
            yield Named(PurePosixPath(package).name, "package", package)


def _defined(module: Module, body: list[ast.stmt], kind: str) -> Iterator[Named]:
    for each in statements(body):
        if not isinstance(each, Definition) or each.name.startswith("_"):
            continue
        if isinstance(each, Function):
            yield Named(each.name, kind, module.path, each.lineno)
        else:
            yield Named(each.name, "class", module.path, each.lineno)
            yield from _defined(module, each.body, "method")


def shared_class_names(tree: Tree) -> Mapping[str, list[Named]]:
    """Public class names that several files define at their top level."""
    found: defaultdict[str, dict[str, Named]] = defaultdict(dict)
    for module in tree:
        for each in statements(module.ast.body):
            if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                # Two classes of one name in one file are the branches of an ``if``.
                found[each.name][module.path] = Named(each.name, "class", module.path, each.lineno)
    return {name: list(found[name].values()) for name in sorted(found) if len(found[name]) > 1}


@dataclass(frozen=True)
class OldName:
    """A name that is no longer used: a row of ``old_names.toml``."""

    words: tuple[str, ...]
    whole: bool
    kinds: frozenset[str]
    below: str
    now: str

    def is_borne_by(self, one: Named) -> bool:
        """Return True if a name equals this old name or, if ``whole`` is false, contains its
        words."""
        if one.kind not in self.kinds or not one.path.startswith(self.below):
            return False
        words = split(one.name)
        if self.whole:
            return words == self.words
        size = len(self.words)
        return any(words[at : at + size] == self.words for at in range(len(words) - size + 1))


def split(name: str) -> tuple[str, ...]:
    """The words of a name in lower case: both ``LateSends`` and ``late_sends`` give two words."""
    return tuple(each.lower() for each in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name))


def old_names(path: Path = HERE / "old_names.toml") -> list[OldName]:
    """The rows of ``old_names.toml``, one for each old name."""
    every = {"class", "module", "package", "function", "method"}
    return [
        OldName(
            split(old),
            each.get("whole", False),
            frozenset(each.get("kinds", every)),
            each.get("below", ""),
            each["now"],
        )
        for each in tomllib.loads(path.read_text("utf-8"))["name"]
        for old in each["old"]
    ]


def old_names_borne(tree: Tree, table: list[OldName]) -> Iterator[tuple[Named, OldName]]:
    """Definitions that still have an old name, except for other bots' names in compat."""
    for one in named(tree):
        if not f"{one.path}/".startswith("nekro_core/compat/"):
            for old in table:
                if old.is_borne_by(one):
                    yield one, old
                    break
