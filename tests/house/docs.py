"""Checks docstrings of the public API: Google style, with all parameters, results and errors."""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.house.tree import Definition, Function, Module, Place, Tree, statements

SECTION = re.compile(
    r"^(Args|Attributes|Returns|Yields|Raises):[ \t]*\n((?:[ \t]+\S.*(?:\n|$)|\s*\n)+)",
    re.MULTILINE,
)
ENTRY = re.compile(r"\*{0,2}(\w+)(?: \([^)]*\))?:")
ITERATORS = (
    "Iterator",
    "AsyncIterator",
    "Generator",
    "AsyncGenerator",
    "Iterable",
    "AsyncIterable",
)
DATA_BASES = ("Struct", "BaseModel", "ConfigBase", "NamedTuple", "TypedDict")
NO_DATA = ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "Protocol")


@dataclass(frozen=True)
class Documented:
    """One function, class or method of the public API, and the parts that its docstring lacks."""

    where: str
    name: str
    lacks: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.where}: {self.name}: {', '.join(self.lacks)}"


def public_api(
    tree: Tree, packages: tuple[str, ...] = ("nekro_core.api", "nekro_core.testing")
) -> list[Documented]:
    """Every definition that an ``__all__`` of these packages leads to, each once."""
    found: dict[tuple[str, int], Documented] = {}
    for module in tree:
        if f"{module.name}.".startswith(tuple(f"{each}." for each in packages)):
            for place in _published(tree, module):
                for one, at in _definitions(tree, place):
                    found.setdefault(at, one)
    return list(found.values())


def _published(tree: Tree, module: Module) -> Iterator[Place]:
    names = list(module.exported or ())
    if module.exported is None:
        for star in module.stars:
            names += tree.modules[star].exported or () if star in tree.modules else ()
    for name in names:
        place = tree.find(module.name, name)
        if place and place.node is None:
            yield from _of_module(tree, place.module)
        elif place:
            yield _made_of(tree, place) or place


def _made_of(tree: Tree, place: Place) -> Place | None:
    """The class of a published object: `TaskFunctions` for ``task = TaskFunctions()``."""
    if not isinstance(place.node, ast.Call):
        return None
    made = tree.follow(place.module, place.node.func)
    return made if made and isinstance(made.node, ast.ClassDef) else None


def _of_module(tree: Tree, module: Module) -> Iterator[Place]:
    """What a published module offers: the names in its ``__all__``, else its public definitions."""
    names = module.exported
    if names is None:
        names = [
            each.name
            for each in statements(module.ast.body)
            if isinstance(each, Definition) and not each.name.startswith("_")
        ]
    yield from (place for name in names if (place := tree.find(module.name, name)) and place.node)


def _definitions(tree: Tree, place: Place) -> Iterator[tuple[Documented, tuple[str, int]]]:
    module, node = place.module, place.node
    if isinstance(node, Function):
        yield _judged(module, node, node.name, _function_lacks(node)), (module.path, node.lineno)
    elif isinstance(node, ast.ClassDef):
        yield (
            _judged(module, node, node.name, _class_lacks(tree, place)),
            (module.path, node.lineno),
        )
        line = _line_of_descent(tree, place)
        seen: set[str] = set()
        for at, (owner, each) in enumerate(line):
            for statement in each.body:
                method = _assigned(tree, owner, statement) or statement
                if not isinstance(method, Function) or _is_private(method.name):
                    continue
                if method.name in seen or _decorated(method, "overload") or _is_setter(method):
                    continue
                if _described_above(method, line[at + 1 :]):
                    continue
                seen.add(method.name)
                name = f"{each.name}.{method.name}"
                lacks = _function_lacks(method, is_method=not _decorated(method, "staticmethod"))
                yield _judged(owner, method, name, lacks), (owner.path, method.lineno)


def _assigned(tree: Tree, owner: Module, statement: ast.stmt) -> Function | None:
    """The function behind a method that is made by assignment: ``mount = module.mount``."""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=ast.Name() | ast.Attribute() as value):
            place = tree.follow(owner, value)
            return place.node if place and isinstance(place.node, Function) else None
    return None


def _is_private(name: str) -> bool:
    return name.startswith("_") and name != "__call__"


def _judged(module: Module, node: Definition, name: str, lacks: list[str]) -> Documented:
    return Documented(f"{module.path}:{node.lineno}", name, tuple(lacks))


def _line_of_descent(tree: Tree, place: Place) -> list[tuple[Module, ast.ClassDef]]:
    """A class and its bases that are in the tree; the nearest base comes first."""
    line: list[tuple[Module, ast.ClassDef]] = []
    waiting = [place]
    while waiting:
        here = waiting.pop(0)
        if isinstance(here.node, ast.ClassDef) and (here.module, here.node) not in line:
            line.append((here.module, here.node))
            bases = (tree.follow(here.module, base) for base in here.node.bases)
            waiting += [base for base in bases if base]
    return line


def _described_above(method: Function, above: list[tuple[Module, ast.ClassDef]]) -> bool:
    """Return True if a method has no docstring and a base class documents it.

    The docstring is then judged at the base class.
    """
    return not ast.get_docstring(method) and any(
        isinstance(each, Function) and each.name == method.name and ast.get_docstring(each)
        for _, base in above
        for each in base.body
    )


def sections(text: str | None) -> dict[str, str]:
    """The sections of a docstring by name, each with its text without indentation."""
    found = SECTION.findall(inspect.cleandoc(text or "") + "\n")
    return {name: inspect.cleandoc("\n" + body) for name, body in found}


def described(section: str) -> set[str]:
    """The names that a section describes. Each entry begins with a name."""
    entries = (ENTRY.match(line) for line in section.splitlines())
    return {entry[1] for entry in entries if entry}


def _function_lacks(node: Function, *, is_method: bool = False) -> list[str]:
    text = ast.get_docstring(node)
    if not text:
        return ["a docstring"]
    there = sections(text)
    lacks = _missing(
        "Args", _parameters(node, is_method=is_method), described(there.get("Args", ""))
    )
    if (
        not _is_property(node)
        and not _returns_nothing(node)
        and not there.keys() & _wanted_return(node)
    ):
        lacks.append("Returns")
    if _raises(node) and "Raises" not in there:
        lacks.append("Raises")
    return lacks


def _class_lacks(tree: Tree, place: Place) -> list[str]:
    assert isinstance(place.node, ast.ClassDef)
    text = ast.get_docstring(place.node)
    lacks = [] if text else ["a docstring"]
    there = sections(text)
    line = _line_of_descent(tree, place)
    made = next(
        (
            each
            for _, owner in line
            for each in owner.body
            if isinstance(each, Function) and each.name == "__init__"
        ),
        None,
    )
    said = described(there.get("Args", "")) | described(there.get("Attributes", ""))
    if made and not _is_protocol(place.node):
        there |= sections(ast.get_docstring(made))
        said |= described(there.get("Args", ""))
        inherited = made not in place.node.body
        # A base class describes its parameters. A class that inherits `__init__` need not.
        if not inherited:
            lacks += _missing("Args", _parameters(made, is_method=True), said)
            if _raises(made) and "Raises" not in there:
                lacks.append("Raises")
    elif _holds_data(line):
        lacks += _missing("Args", _undescribed_fields(place.node), said)
    return lacks


def _missing(section: str, wanted: list[str], described_names: set[str]) -> list[str]:
    missing = [name for name in wanted if name not in described_names]
    return [f"{section} ({', '.join(missing)})"] if missing else []


def _parameters(node: Function, *, is_method: bool) -> list[str]:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args][1 if is_method else 0 :]
    rest = [each for each in (arguments.vararg, arguments.kwarg) if each]
    every = (each.arg for each in (*positional, *arguments.kwonlyargs, *rest))
    return [name for name in every if name.strip("_")]


def _undescribed_fields(node: ast.ClassDef) -> list[str]:
    """The public fields of a dataclass that have no docstring right below them."""
    found = []
    for each, below in zip(node.body, [*node.body[1:], None], strict=True):
        match each:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind) if not name.startswith(
                "_"
            ):
                if "ClassVar" not in ast.unparse(kind) and not _is_text(below):
                    found.append(name)
            case _:
                pass
    return found


def _is_text(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _holds_data(line: list[tuple[Module, ast.ClassDef]]) -> bool:
    bases = {_last_name(base) for _, each in line for base in each.bases}
    if bases & {*NO_DATA}:
        return False
    return bool(bases & {*DATA_BASES}) or any(_decorated(each, "dataclass") for _, each in line)


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(_last_name(base) == "Protocol" for base in node.bases)


def _is_property(node: Function) -> bool:
    return _decorated(node, "property") or _decorated(node, "cached_property")


def _is_setter(node: Function) -> bool:
    return _decorated(node, "setter") or _decorated(node, "deleter")


def _decorated(node: Definition, name: str) -> bool:
    return any(_last_name(each) == name for each in node.decorator_list)


def _last_name(node: ast.expr) -> str:
    """The last name of an expression: ``c`` for ``a.b.c``, ``a.b.c[d]`` and ``a.b.c(d)``."""
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _returns_nothing(node: Function) -> bool:
    if node.returns is None:
        returned = (each.value for each in _own(node) if isinstance(each, ast.Return))
        yields = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in _own(node))
        return not yields and all(value is None for value in returned)
    return ast.unparse(node.returns).strip("'\"") in ("None", "NoReturn", "Never")


def _wanted_return(node: Function) -> set[str]:
    returned = _last_name(node.returns) if node.returns else ""
    return {"Returns", "Yields"} if returned in (*ITERATORS, "") else {"Returns"}


def _raises(node: Function) -> bool:
    """Return True if the function's own body raises an error.

    A bare ``raise`` and a `NotImplementedError` do not count.
    """
    return any(
        each.exc is not None and _last_name(each.exc) != "NotImplementedError"
        for each in _own(node)
        if isinstance(each, ast.Raise)
    )


def _own(node: Function) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions and classes inside it."""
    waiting: list[ast.AST] = [*node.body]
    while waiting:
        here = waiting.pop()
        yield here
        if not isinstance(here, Definition | ast.Lambda):
            waiting += ast.iter_child_nodes(here)
