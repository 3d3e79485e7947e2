"""Draws mutants of one module. It applies the operators of mutmut, and some operators of its own,
at random nodes.

The seed decides which nodes are changed. The program runs in an environment that has mutmut (`make
mutants` makes it). It needs nothing else of this project::

    .venv-mutants/bin/python tests/mutants/draw.py FILE NAME COUNT SEED

It prints JSON: a list of ``{"id", "line", "inside", "diff", "code"}``. It draws no mutants in
annotations, docstrings, log texts, ``TYPE_CHECKING`` blocks, type casts, decorators, and the base
classes and keywords of classes.
"""

import difflib
import hashlib
import json
import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_string

_SWAPPED_NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}
_NO_CODE = m.SimpleStatementLine([m.Expr(m.SimpleString() | m.Ellipsis()) | m.Pass()])
# a mutant of such a call tells nothing, because any test notices it
_UNTOUCHED_CALLS = {"len", "isinstance", "cast"}


@dataclass(frozen=True)
class Mutation:
    node: cst.CSTNode
    becomes: cst.CSTNode
    line: int
    column: int
    inside: str


def _return_nothing(node: cst.Return) -> Iterator[cst.CSTNode]:
    if node.value is not None and not m.matches(node.value, m.Name("None")):
        yield node.with_changes(
            value=cst.Name("None"), whitespace_after_return=cst.SimpleWhitespace(" ")
        )


def _guard_forced(node: cst.If | cst.CompIf) -> Iterator[cst.CSTNode]:
    for forced in ("True", "False"):
        if not m.matches(node.test, m.Name(forced)):
            yield node.with_changes(test=cst.Name(forced))


def _guard_reversed(node: cst.If) -> Iterator[cst.CSTNode]:
    inner = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    yield node.with_changes(test=cst.UnaryOperation(operator=cst.Not(), expression=inner))


def _statement_dropped(node: cst.Expr | cst.Raise | cst.Del) -> Iterator[cst.CSTNode]:
    if not m.matches(node, m.Expr(m.SimpleString() | m.ConcatenatedString() | m.Ellipsis())):
        yield cst.Pass()


def _name_swapped(node: cst.Call) -> Iterator[cst.CSTNode]:
    if isinstance(node.func, cst.Name) and (other := _SWAPPED_NAMES.get(node.func.value)):
        yield node.with_changes(func=cst.Name(other))


def _first_string(node: cst.BaseString) -> Iterator[cst.CSTNode]:
    # mutmut's other mutants change the case of letters, which SQL ignores. A test that notices this
    # mutant notices those mutants, too.
    yield from list(operator_string(node))[:1]


_OPERATORS = (
    *(
        (kind, _first_string if operator is operator_string else operator)
        for kind, operator in mutation_operators
    ),
    (cst.Return, _return_nothing),
    (cst.If, _guard_forced),
    (cst.If, _guard_reversed),
    (cst.CompIf, _guard_forced),
    (cst.Expr, _statement_dropped),
    (cst.Raise, _statement_dropped),
    (cst.Del, _statement_dropped),
    (cst.Call, _name_swapped),
)


class Finder(cst.CSTVisitor):
    """Collects the nodes that may be mutated."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.mutations: list[Mutation] = []
        self._places: list[tuple[int, int]] = [(1, 0)]
        self._names: list[str] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _is_left_out(node):
            return False
        position = self.get_metadata(PositionProvider, node, None)
        self._places.append(
            (position.start.line, position.start.column) if position else self._places[-1]
        )
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self._names.append(node.name.value)
        for kind, operator in _OPERATORS:
            if isinstance(node, kind):
                for becomes in operator(node):
                    line, column = self._places[-1]
                    inside = ".".join(self._names)
                    self.mutations.append(Mutation(node, becomes, line, column, inside))
        if isinstance(node, cst.ClassDef):
            node.body.visit(self)  # do not visit the bases, keywords and decorators of the class
            self.on_leave(node)
            return False
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if _is_left_out(original_node):
            return
        if isinstance(original_node, cst.ClassDef):
            if not self._names or self._names[-1] != original_node.name.value:
                return
            self._names.pop()
            self._places.pop()
            return
        if isinstance(original_node, cst.FunctionDef):
            self._names.pop()
        self._places.pop()


def _is_left_out(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Annotation | cst.Import | cst.ImportFrom | cst.Decorator):
        return True
    if isinstance(node, cst.Param):
        # No code reads such a parameter. Only the signature needs it.
        return node.name.value.startswith("_")
    if isinstance(node, cst.FunctionDef):
        # This is a method without code, such as a method of a protocol.
        return all(m.matches(each, _NO_CODE) for each in node.body.body)
    if isinstance(node, cst.Call):
        return m.matches(
            node.func,
            m.Attribute(value=m.Name("logger"))
            | m.Attribute(value=m.Call(func=m.Attribute(value=m.Name("logger"))))
            | m.MatchIfTrue(
                lambda func: isinstance(func, cst.Name) and func.value in _UNTOUCHED_CALLS
            ),
        )
    return m.matches(
        node,
        m.If(test=m.Name("TYPE_CHECKING"))
        | m.Expr(m.SimpleString() | m.ConcatenatedString())
        | m.Expr(m.Call(func=m.Attribute(value=m.Name("logger"))))
        | m.Assign(value=m.Subscript(value=m.Name("Callable")))
        | m.TypeAlias()
        # The next line matches the alias of a type, such as ``Decision = Answer | Silent | Wait``.
        | m.Assign(targets=[m.AssignTarget(m.Name(m.MatchRegex(r"[A-Z][a-z]\w*")))]),
    )


def draw(path: Path, name: str, count: int, seed: str) -> Iterator[dict[str, object]]:
    """At most ``count`` mutants, spread over as many nodes as possible."""
    source = path.read_text(encoding="utf-8")
    wrapper = MetadataWrapper(cst.parse_module(source))
    finder = Finder()
    wrapper.visit(finder)
    nodes: dict[tuple[int, int, int], list[Mutation]] = {}
    for each in finder.mutations:
        nodes.setdefault((each.line, each.column, id(each.node)), []).append(each)
    chance = random.Random(f"{seed}:{name}")
    rows = [*nodes.values()]
    chance.shuffle(rows)
    for row in rows:
        chance.shuffle(row)
    codes = {source}
    while rows and count:
        for row in list(rows):
            if not row:
                rows.remove(row)
                continue
            mutation = row.pop()
            code = wrapper.module.deep_replace(mutation.node, mutation.becomes).code
            if code in codes or not _compiles(code):
                continue
            codes.add(code)
            yield _described(name, source, code, mutation)
            count -= 1
            if not count:
                return


def _compiles(code: str) -> bool:
    try:
        compile(code, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _described(name: str, source: str, code: str, mutation: Mutation) -> dict[str, object]:
    lines = list(difflib.unified_diff(source.splitlines(), code.splitlines(), n=3, lineterm=""))
    changed = [line for line in lines[2:] if line[0] in "+-"]
    # The neighbouring lines are part of the id, because a function may contain the same line twice.
    around = (line[:1] + line[1:].strip() for line in lines[2:] if not line.startswith("@@"))
    mark = "\n".join((mutation.inside, *around))
    return {
        "id": f"{name}-{hashlib.sha256(mark.encode()).hexdigest()[:10]}",
        "line": mutation.line,
        "inside": mutation.inside,
        "diff": "\n".join(changed),
        "code": code,
    }


def main(arguments: Iterable[str]) -> None:
    path, name, count, seed = arguments
    json.dump(list(draw(Path(path), name, int(count), seed)), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
