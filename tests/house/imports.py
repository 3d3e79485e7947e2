"""The import graph: who imports whom, and which files and rooms do so in a circle.

An arrow is any import, wherever it stands: at the top, inside a function, under ``TYPE_CHECKING``,
or as a string that names a module (``import_module("nekro_core.x")``). Not an arrow: that Python
runs the ``__init__`` of every package on the way to a module.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from tests.house.tree import GUEST, Function, Module, Tree, loads

LARGE = frozenset(
    f"nekro_core/{room}"
    for room in (
        "plugins",
        "plugin",
        "agent",
        "delivery",
        "sandbox",
        "compat",
        "app",
        "cli",
        "tools",
    )
)
"""Rooms whose second folders are rooms, too; a file that lies directly in one is its own."""
Edges = Mapping[tuple[str, str], list["Arrow"]]


@dataclass(frozen=True)
class Arrow:
    """One import: from a file, in a line, of a module and perhaps of a name in it."""

    source: Module
    line: int
    module: str
    name: str
    how: str

    def __str__(self) -> str:
        what = f"{self.module}: {self.name}" if self.name else self.module
        return f"{self.source.path}:{self.line} -> {what}" + (f" ({self.how})" if self.how else "")


@dataclass(frozen=True)
class Circle:
    """Nodes that all reach each other, and the fewest arrows found without which they do not."""

    nodes: tuple[str, ...]
    closing: tuple[Arrow, ...]

    def __str__(self) -> str:
        lines = [f"a circle of {len(self.nodes)}: {', '.join(self.nodes)}; it is closed by"]
        return "\n    ".join([*lines, *map(str, self.closing)])


def arrows(tree: Tree) -> Iterator[Arrow]:
    """Every import of a module that lies in the tree."""
    for module in tree:
        types, functions = _spans(module)
        for node, wanted, name in _wanted(module, tree):
            how = "string" if isinstance(node, ast.Constant | ast.JoinedStr) else ""
            if any(node.lineno in span for span in types):
                how = "type only"
            elif not how and any(node.lineno in span for span in functions):
                how = "in a function"
            yield Arrow(module, node.lineno, wanted, name, how)


def _spans(module: Module) -> tuple[list[range], list[range]]:
    """The lines that only type checkers read, and those inside functions."""
    types, functions = [], []
    for node in module.nodes:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            types += [range(each.lineno, (each.end_lineno or 0) + 1) for each in node.body]
        elif isinstance(node, Function):
            functions.append(range(node.lineno, (node.end_lineno or 0) + 1))
    return types, functions


def _wanted(module: Module, tree: Tree) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """Node, module and name of each import of something that is in the tree."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if (wanted := _beside(module, alias.name, tree)) in tree.modules:
                    yield node, wanted, ""
        elif isinstance(node, ast.ImportFrom):
            wanted = module.absolute(node)
            if not node.level:
                wanted = _beside(module, wanted, tree)
            for alias in node.names:
                if f"{wanted}.{alias.name}" in tree.modules:
                    yield node, f"{wanted}.{alias.name}", ""
                elif wanted in tree.modules:
                    yield node, wanted, alias.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            if module.path.startswith(GUEST):
                continue  # the name of a class in a pickle
            wanted, _, name = node.value.partition(":")
            # A package that names itself reads its own files: those are no imports.
            if wanted in tree.modules and not f"{module.name}.".startswith(f"{wanted}."):
                yield node, wanted, name
        elif isinstance(node, ast.Call) and loads(node):
            yield from _computed(module, node, tree)


def _beside(module: Module, wanted: str, tree: Tree) -> str:
    """Where a file lies beside its importer and is started as a script, its name has no package."""
    beside = f"{module.package}.{wanted}"
    return (
        beside
        if "." not in wanted and beside in tree.modules and wanted not in tree.modules
        else wanted
    )


def _computed(module: Module, call: ast.Call, tree: Tree) -> Iterator[tuple[ast.expr, str, str]]:
    """``import_module(".page", __package__)``, and an f-string whose end alone is not known."""
    for each in call.args:
        match each:
            case ast.Constant(value=str(text)) if text.startswith("."):
                if (wanted := module.package + text) in tree.modules:
                    yield each, wanted, ""
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]) if text.endswith("."):
                start = module.package + text if text.startswith(".") else text
                for name in tree.modules:
                    if name.startswith(start) and "." not in name.removeprefix(start):
                        yield each, name, ""


def room(path: str) -> str:
    """The first folder below `nekro_core`, `adapters` or `plugins`; a loose file is its own."""
    return "/".join(PurePosixPath(path).parts[:2])


def sub_room(path: str) -> str:
    """The same, but for a large room its second folder."""
    return "/".join(PurePosixPath(path).parts[: 3 if room(path) in LARGE else 2])


def between_files(tree: Tree, found: Iterable[Arrow]) -> Edges:
    """Arrows from file to file. What an ``__init__`` only re-exports comes from where it is."""
    return _edges(tree, found, lambda path: path, lambda module: module.only_re_exports)


def between_rooms(tree: Tree, found: Iterable[Arrow]) -> Edges:
    """Arrows from room to room, as they are written."""
    return _edges(tree, found, room, lambda _: False)


def between_sub_rooms(tree: Tree, found: Iterable[Arrow]) -> Edges:
    """Arrows from sub-room to sub-room. The face of a large room is all its sub-rooms'."""
    return _edges(
        tree,
        found,
        sub_room,
        lambda module: (
            module.only_re_exports and room(module.path) in LARGE and module.name.count(".") == 1
        ),
    )


def _edges(
    tree: Tree,
    found: Iterable[Arrow],
    node: Callable[[str], str],
    is_face: Callable[[Module], bool],
) -> Edges:
    edges: defaultdict[tuple[str, str], list[Arrow]] = defaultdict(list)
    for arrow in found:
        source = node(arrow.source.path)
        for target in _behind(tree, arrow, is_face):
            if source != node(target.path):
                edges[source, node(target.path)].append(arrow)
    return edges


def _behind(tree: Tree, arrow: Arrow, is_face: Callable[[Module], bool]) -> Iterator[Module]:
    """The file that an arrow means: the face itself for who lives behind it, else what it shows."""
    target = tree.modules[arrow.module]
    lives_there = f"{arrow.source.name}.".startswith(f"{target.name}.")
    if not is_face(target) or lives_there or not arrow.name:
        yield target
    elif arrow.name == "*":
        shown = (tree.find(target.name, name) for name in target.exported or target.bindings)
        yield from {place.module.name: place.module for place in shown if place}.values()
    elif (place := tree.find(target.name, arrow.name)) is not None:
        yield place.module


def circles(edges: Edges, more_than: int) -> list[Circle]:
    """The strongly connected components of more than so many nodes, largest first.

    Loose files alone are no circle of rooms: that is for `between_files` to judge.
    """
    after: defaultdict[str, set[str]] = defaultdict(set)
    for source, target in edges:
        after[source].add(target)
    large = (sorted(each) for each in _components(after) if len(each) > more_than)
    return [
        Circle(tuple(nodes), tuple(_closing(nodes, edges)))
        for nodes in sorted(large, key=lambda nodes: (-len(nodes), nodes))
    ]


def _components(after: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Tarjan's algorithm (SIAM J. Comput. 1, 1972), without recursion."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    for root in sorted(after):
        if root in number:
            continue
        work = [(root, iter(sorted(after[root])))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in number:
                    number[target] = low[target] = len(number)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(after.get(target, ())))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], number[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    cut = stack.index(node)
                    yield stack[cut:]
                    on_stack.difference_update(stack[cut:])
                    del stack[cut:]


def _closing(nodes: list[str], edges: Edges) -> list[Arrow]:
    """The arrows that run up when the nodes stand in the best order that was found.

    A node moves to where the fewest imports run up, until none moves: a good order, not surely the
    best.
    """
    inside = set(nodes)
    weights = Counter(
        {pair: len(each) for pair, each in edges.items() if pair[0] in inside and pair[1] in inside}
    )
    order = sorted(
        nodes,
        key=lambda node: sum(
            weight * ((pair[1] == node) - (pair[0] == node)) for pair, weight in weights.items()
        ),
    )
    moved = True
    while moved:
        moved = False
        for node in nodes:
            here = order.index(node)
            rest = order[:here] + order[here + 1 :]
            # In the first place, whoever imports this node runs up to it.
            cost = sum(weights[other, node] for other in rest)
            costs = [cost]
            for other in rest:
                cost += weights[node, other] - weights[other, node]
                costs.append(cost)
            best_cost = min(costs)
            if best_cost < costs[here]:
                rest.insert(costs.index(best_cost), node)
                order, moved = rest, True
    at = {node: index for index, node in enumerate(order)}
    return [arrow for pair in sorted(weights) if at[pair[0]] > at[pair[1]] for arrow in edges[pair]]
