"""Builds the import graph: which files and rooms import each other, and which of them are in a
circle.

An arrow is an import. It counts wherever it is written: at the top of a file, inside a function,
under ``TYPE_CHECKING``, or as a string that names a module (``import_module("nekro_core.x")``).
Importing a module also runs the ``__init__`` of its packages. These runs do not count as arrows.
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
"""Rooms that are divided: each folder in them, and each file directly in them, is a sub-room."""
Edges = Mapping[tuple[str, str], list["Arrow"]]


@dataclass(frozen=True)
class Arrow:
    """One import: the importing file and line, the module, and perhaps the imported name."""

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
    """Nodes that all reach each other, and arrows whose removal opens the circle."""

    nodes: tuple[str, ...]
    closing: tuple[Arrow, ...]

    def __str__(self) -> str:
        lines = [f"a circle of {len(self.nodes)}: {', '.join(self.nodes)}; it is closed by"]
        return "\n    ".join([*lines, *map(str, self.closing)])


def arrows(tree: Tree) -> Iterator[Arrow]:
    """Every import of a module that is in the tree."""
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
    """The syntax node, the module and the name of each import of a module that is in the tree."""
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
                continue  # in guest code, such a string is the class name in a pickle
            wanted, _, name = node.value.partition(":")
            # A package that names itself looks for its own data files. Such a name is not an
            # import.
            if wanted in tree.modules and not f"{module.name}.".startswith(f"{wanted}."):
                yield node, wanted, name
        elif isinstance(node, ast.Call) and loads(node):
            yield from _computed(module, node, tree)


def _beside(module: Module, wanted: str, tree: Tree) -> str:
    """The full name of a module that a script imports without its package.

    A file that is started as a script imports the files of its own folder by their short names.
    """
    beside = f"{module.package}.{wanted}"
    return (
        beside
        if "." not in wanted and beside in tree.modules and wanted not in tree.modules
        else wanted
    )


def _computed(module: Module, call: ast.Call, tree: Tree) -> Iterator[tuple[ast.expr, str, str]]:
    """Imports whose module name is relative or computed.

    A relative name is found in ``import_module(".page", __package__)``. A computed name is an
    f-string that begins with the name of a package. It counts as an import of every module of this
    package.
    """
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
    """The first folder below `nekro_core`, `adapters` or `plugins`, or a file directly there."""
    return "/".join(PurePosixPath(path).parts[:2])


def sub_room(path: str) -> str:
    """The room of a file, or for a large room the second folder below `nekro_core`."""
    return "/".join(PurePosixPath(path).parts[: 3 if room(path) in LARGE else 2])


def between_files(tree: Tree, found: Iterable[Arrow]) -> Edges:
    """Arrows from file to file. A re-exported name counts as imported from its defining file."""
    return _edges(tree, found, lambda path: path, lambda module: module.only_re_exports)


def between_rooms(tree: Tree, found: Iterable[Arrow]) -> Edges:
    """Arrows from room to room. Here an ``__init__`` counts as a file of its room."""
    return _edges(tree, found, room, lambda _: False)


def between_sub_rooms(tree: Tree, found: Iterable[Arrow]) -> Edges:
    """Arrows from sub-room to sub-room. A re-exported name belongs to its sub-room."""
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
    """The files that an arrow really leads to.

    If the target is an ``__init__`` that only re-exports, this is the file that defines the
    imported name. A file inside that package imports the ``__init__`` itself.
    """
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
    """The strongly connected components with more than ``more_than`` nodes, largest first."""
    after: defaultdict[str, set[str]] = defaultdict(set)
    for source, target in edges:
        after[source].add(target)
    large = (sorted(each) for each in _components(after) if len(each) > more_than)
    return [
        Circle(tuple(nodes), tuple(_closing(nodes, edges)))
        for nodes in sorted(large, key=lambda nodes: (-len(nodes), nodes))
    ]


def _components(after: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Strongly connected components (Tarjan, SIAM J. Comput. 1, 1972), without recursion."""
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
    """A few arrows whose removal opens the circle.

    The nodes are put into an order, and the arrows from a later node to an earlier one are
    returned. Nodes are moved within the order while that leaves fewer such arrows. The result is
    good, but there may be a better one.
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
            # With the node in the first place, every import of this node comes from a later node.
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
