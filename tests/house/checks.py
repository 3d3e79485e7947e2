"""Defines every check. A check returns the number of its findings, and one line of text for each
finding."""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.house import docs, errors, imports, layout, names, packages, singles
from tests.house.tree import Tree

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """The findings of one check."""

    count: int
    lines: tuple[str, ...]


class House:
    """One checkout of the project, read once for all checks.

    Args:
        root: The folder with ``pyproject.toml``.
        justified: The tables of ``justified.toml``: exceptions, each with its reason. None reads
            the file.
    """

    def __init__(
        self, root: Path, justified: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        self.root = root
        self.tree = Tree(root)
        self.justified = read_justified() if justified is None else justified

    @cached_property
    def arrows(self) -> list[imports.Arrow]:
        """Every import of one of our modules."""
        return list(imports.arrows(self.tree))

    @cached_property
    def api(self) -> list[docs.Documented]:
        """What each function, class and method of the public API lacks in its docstring."""
        return docs.public_api(self.tree)

    @cached_property
    def shared_class_names(self) -> Mapping[str, list[names.Named]]:
        """Public class names that several files define."""
        return names.shared_class_names(self.tree)

    def kept(self, table: str) -> Mapping[str, str]:
        """One table of ``justified.toml``: the findings that this check must leave out."""
        return self.justified.get(table, {})


def read_justified() -> Mapping[str, Mapping[str, str]]:
    """The tables of ``justified.toml``."""
    return tomllib.loads((HERE / "justified.toml").read_text("utf-8"))


def files_in_circles(house: House) -> Outcome:
    """Files in an import circle of more than two files."""
    edges = imports.between_files(house.tree, house.arrows)
    return _circles(imports.circles(edges, more_than=2))


def rooms_in_circles(house: House) -> Outcome:
    """Rooms that import each other in a circle."""
    edges = imports.between_rooms(house.tree, house.arrows)
    return _circles(imports.circles(edges, more_than=1))


def sub_rooms_in_circles(house: House) -> Outcome:
    """Sub-rooms of large rooms that import each other in a circle.

    A circle of loose files only is left out: `files_in_circles` finds it.
    """
    edges = imports.between_sub_rooms(house.tree, house.arrows)
    found = imports.circles(edges, more_than=1)
    return _circles(each for each in found if not all(node.endswith(".py") for node in each.nodes))


def _circles(found: Iterable[imports.Circle]) -> Outcome:
    circles = tuple(found)
    return Outcome(sum(len(each.nodes) for each in circles), tuple(map(str, circles)))


def shared_class_names(house: House) -> Outcome:
    """Public classes with the name of another class. The first class of a name is not counted."""
    shared = {
        name: classes
        for name, classes in house.shared_class_names.items()
        if name not in house.kept("class_names")
    }
    return Outcome(
        sum(len(classes) - 1 for classes in shared.values()),
        tuple(f"{name}: {', '.join(each.where for each in shared[name])}" for name in shared),
    )


def old_names(house: House) -> Outcome:
    """Public classes, modules, packages, functions and methods that have an old name."""
    return _listed(
        f"{one} has an old name; it is now: {old.now}"
        for one, old in names.old_names_borne(house.tree, names.old_names())
    )


def wrong_hops(house: House) -> Outcome:
    """Functions that ARCHITECTURE.md names and that do not exist."""
    return _listed(layout.wrong_hops(house.tree, house.root))


def missing_paths(house: House) -> Outcome:
    """Files and folders that ARCHITECTURE.md names and that do not exist."""
    return _listed(layout.missing_paths(house.root))


def loose_files(house: House) -> Outcome:
    """Files that lie directly in `nekro_core`, outside every room."""
    return _listed(layout.loose_files(house.root))


def undeclared_packages(house: House) -> Outcome:
    """Distributions that are imported and not declared."""
    return _but(packages.undeclared(house.tree), house.kept("undeclared"))


def packages_not_imported(house: House) -> Outcome:
    """Distributions that are declared and not imported."""
    return _but(packages.not_imported(house.tree), house.kept("not_imported"))


def undocumented_api(house: House) -> Outcome:
    """Functions, classes and methods of the public API with incomplete docstrings."""
    return _listed(str(each) for each in house.api if each.lacks)


def errors_without_root(house: House) -> Outcome:
    """Error classes of `nekro_core` that do not derive from `NekroError`.

    If neither a class nor its base derives from it, only the base is listed.
    """
    return _but(errors.without_root(house.tree), house.kept("errors"))


def other_http_clients(house: House) -> Outcome:
    """Files that import an HTTP client other than httpx."""
    return _but(singles.other_http_clients(house.tree), house.kept("http_clients"))


def other_keyed_queues(house: House) -> Outcome:
    """Files that make locks or queues by key without using `nekro_core/system/keyed_queue.py`."""
    return _but(singles.other_keyed_queues(house.tree), house.kept("keyed_queues"))


def other_rate_windows(house: House) -> Outcome:
    """Files that count recent events without using `nekro_core/system/rate_window.py`."""
    return _listed(singles.other_rate_windows(house.tree).values())


def other_confinement(house: House) -> Outcome:
    """Files outside `nekro_core/system/confinement/` that confine their own process."""
    return _but(singles.other_confinement(house.tree), house.kept("confinement"))


def sentences_in_code(house: House) -> Outcome:
    """Files with sentences that people read, outside the catalogue."""
    return _but(singles.sentences_in_code(house.tree), house.kept("sentences"))


def sql_elsewhere(house: House) -> Outcome:
    """Files with SQL outside the store."""
    return _listed(singles.sql_elsewhere(house.tree).values())


def _listed(lines: Iterable[str]) -> Outcome:
    found = tuple(lines)
    return Outcome(len(found), found)


def _but(found: Mapping[str, str], kept: Mapping[str, str]) -> Outcome:
    return _listed(line for name, line in found.items() if name not in kept)


CHECKS: Mapping[str, Callable[[House], Outcome]] = {
    check.__name__: check
    for check in (
        files_in_circles,
        rooms_in_circles,
        sub_rooms_in_circles,
        shared_class_names,
        old_names,
        wrong_hops,
        missing_paths,
        loose_files,
        undeclared_packages,
        packages_not_imported,
        undocumented_api,
        errors_without_root,
        other_http_clients,
        other_keyed_queues,
        other_rate_windows,
        other_confinement,
        sentences_in_code,
        sql_elsewhere,
    )
}


def stale_reasons(house: House) -> list[str]:
    """Entries of ``justified.toml`` that no check would report any more."""
    named = {
        "class_names": house.shared_class_names,
        "errors": errors.without_root(house.tree),
        "undeclared": packages.undeclared(house.tree),
        "not_imported": packages.not_imported(house.tree),
        "http_clients": singles.other_http_clients(house.tree),
        "confinement": singles.other_confinement(house.tree),
        "sentences": singles.sentences_in_code(house.tree),
        "keyed_queues": singles.other_keyed_queues(house.tree),
    }
    return [
        f"[{table}] {name}"
        for table, entries in house.justified.items()
        for name in entries
        if name not in named.get(table, {})
    ]
