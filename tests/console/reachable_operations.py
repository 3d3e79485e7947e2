"""Finds the operations that a page of the console can call for a role, by reading its source.

`Reader` follows the code of a page, beginning with its draw function, without running it. It
follows every branch. A function that the code passes to something else (the handler of a button, a
timer, a task) counts as called. Only the conditions ``view.may(role)`` are decided, with the role
of the view. The result is the set of operations that a person with this role can call with an
enabled control.
"""

import ast
import builtins
import functools
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from nicegui import ui

from nekro_core.console.view import View
from nekro_core.operator.actions import BoundAction, BoundQuery

ROOM = "nekro_core.console"
MOST_DEEP = 60


class _Unknown:
    """A value that the reader does not know."""


UNKNOWN: Any = _Unknown()


@dataclass(frozen=True)
class Decided:
    """The outcome of ``view.may(...)``, or a value that is computed only from such outcomes."""

    yes: bool


@dataclass(eq=False)
class Closure:
    """A function or lambda that is defined in the code that is read."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: "Scope"
    defaults: dict[str, Any]


@dataclass(eq=False)
class Instance:
    """An object of a class of the console."""

    of: type
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Bound:
    """A method of an `Instance`, or a function with some arguments already bound."""

    function: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Several:
    """A list or tuple. It also stands for a value that may be any of these values."""

    values: tuple[Any, ...]


class Table(Several):
    """The values of a dictionary. A loop over the dictionary gets its keys, which are not known."""


class Scope:
    """The local names of a function that is read, and of the functions around it."""

    def __init__(
        self, names: dict[str, Any], outer: "Scope | None", module: dict[str, Any]
    ) -> None:
        self.names, self.outer, self.module = names, outer, module

    def get(self, name: str) -> Any:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return self.module.get(name, getattr(builtins, name, UNKNOWN))

    def decided(self) -> tuple[Any, ...]:
        """The names and values that make two scopes of one function different: decisions,
        operations and functions."""
        found: list[Any] = []
        scope: Scope | None = self
        while scope is not None:
            for name, value in scope.names.items():
                if isinstance(value, Decided | BoundAction | BoundQuery | Closure | Bound):
                    found.append((name, _identity(value)))
            scope = scope.outer
        return tuple(found)

    def put(self, name: str, value: Any) -> None:
        self.names[name] = _joined(self.names.get(name, UNKNOWN), value)


@dataclass(frozen=True)
class Use:
    """An operation that is called, and the place of the call."""

    operation: BoundAction[..., Any] | BoundQuery[..., Any]
    place: str


class Reader:
    """Reads the code of a page. ``uses`` has the operations that the code calls."""

    def __init__(self) -> None:
        self.uses: dict[str, Use] = {}
        self._done: set[tuple[Any, ...]] = set()
        self._alive: list[Any] = []
        self._places: list[str] = []

    # -- functions

    def call(self, function: Any, arguments: Sequence[Any] = (), **named: Any) -> Any:
        """Read a function with these arguments. Return its result, as far as it is known."""
        match function:
            case BoundAction() | BoundQuery():
                self._use(function)
            case Bound():
                more = {**function.named, **named}
                return self.call(function.function, (*function.arguments, *arguments), **more)
            case Closure():
                return self._read(
                    function.node, function.scope, function.defaults, arguments, named
                )
            case Several():
                for each in function.values:
                    self.call(each, arguments, **named)
            case MethodType():
                return self._call_method(function, arguments, named)
            case FunctionType() if _ours(function):
                scope = Scope({}, None, function.__globals__)
                return self._read(_source_of(function), scope, {}, arguments, named)
            case type() if _ours(function):
                return self._make(function, arguments, named)
            case _:
                self._give_away((*arguments, *named.values()))
        return UNKNOWN

    def _call_method(
        self, method: MethodType, arguments: Sequence[Any], named: dict[str, Any]
    ) -> Any:
        owner, function = method.__self__, method.__func__
        if isinstance(owner, BoundAction | BoundQuery):
            self._use(owner)
        elif isinstance(owner, View):
            if function.__name__ == "may":
                role = (*arguments, *named.values())[0]
                return UNKNOWN if role is UNKNOWN else Decided(owner.may(role))
            # After a change, the view shows a button that undoes it. What this button calls does
            # not count.
            self._give_away((*arguments, *named.values()))
        elif _ours(function):
            scope = Scope({}, None, function.__globals__)
            return self._read(_source_of(function), scope, {}, (owner, *arguments), named)
        else:
            self._give_away((*arguments, *named.values()))
        return UNKNOWN

    def _make(self, kind: type, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
        made = Instance(kind)
        made.attributes |= named
        if isinstance(kind.__init__, FunctionType) and _ours(kind.__init__):
            try:
                self.call(kind.__init__, (made, *arguments), **named)
            except LookupError:  # the generated __init__ of a dataclass has no source
                fields = list(inspect.signature(kind).parameters)
                made.attributes |= dict(zip(fields, arguments, strict=False))
        return made

    def _give_away(self, values: Sequence[Any]) -> None:
        """Read the functions among these values: the code that gets them may call them."""
        for value in values:
            match value:
                case Several():
                    self._give_away(value.values)
                case Closure() | Bound() | BoundAction() | BoundQuery() | MethodType():
                    self.call(value)
                case FunctionType() if _ours(value):
                    self.call(value)

    def _use(self, operation: BoundAction[..., Any] | BoundQuery[..., Any]) -> None:
        places = " > ".join(self._places[-3:])
        self.uses.setdefault(operation.full_name, Use(operation, places))

    def _read(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        around: Scope,
        defaults: dict[str, Any],
        arguments: Sequence[Any],
        named: dict[str, Any],
    ) -> Any:
        spec = node.args
        names = [each.arg for each in (*spec.posonlyargs, *spec.args)]
        bound = {each.arg: UNKNOWN for each in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
        bound |= defaults | dict(zip(names, arguments, strict=False))
        bound |= {name: value for name, value in named.items() if name in bound}
        if spec.vararg:
            bound[spec.vararg.arg] = Several(tuple(arguments[len(names) :]))
        if spec.kwarg:
            rest = tuple(value for name, value in named.items() if name not in bound)
            bound[spec.kwarg.arg] = Several(rest)
        key = (id(node), around.decided(), *(_identity(value) for value in bound.values()))
        if key in self._done or len(self._places) > MOST_DEEP:
            return UNKNOWN
        self._done.add(key)
        # keep the objects, so that no new object gets one of these ids
        self._alive += [around, *bound.values()]
        scope = Scope(bound, around, around.module)
        file = Path(str(around.module.get("__file__", ""))).name
        self._places.append(f"{file}:{node.lineno}")
        try:
            if isinstance(node, ast.Lambda):
                return self.value(node.body, scope)
            returned: list[Any] = []
            self._block(node.body, scope, returned)
            return functools.reduce(_joined, returned, UNKNOWN)
        finally:
            self._places.pop()

    # -- statements

    def _block(self, body: Sequence[ast.stmt], scope: Scope, returned: list[Any]) -> bool:
        """Read statements. Return True if they always leave the block, so that the code after it is
        dead."""
        return any(self._statement(each, scope, returned) for each in body)

    def _statement(self, node: ast.stmt, scope: Scope, returned: list[Any]) -> bool:
        match node:
            case ast.Return():
                returned.append(self.value(node.value, scope) if node.value else UNKNOWN)
                return True
            case ast.Raise() | ast.Continue() | ast.Break():
                self._children(node, scope)
                return True
            case ast.If():
                decided = self.value(node.test, scope)
                if isinstance(decided, Decided):
                    return self._block(node.body if decided.yes else node.orelse, scope, returned)
                ends = self._block(node.body, scope, returned)
                return self._block(node.orelse, scope, returned) and ends and bool(node.orelse)
            case ast.Assign():
                value = self.value(node.value, scope)
                for target in node.targets:
                    self._put(target, value, scope)
            case ast.AnnAssign():
                if node.value is not None:
                    self._put(node.target, self.value(node.value, scope), scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                made = self._closure(node, scope)
                scope.put(node.name, made)
                for each in node.decorator_list:
                    if "refreshable" not in ast.unparse(each):
                        self.value(each, scope)
                        self._give_away([made])
            case ast.For() | ast.AsyncFor():
                self._loop(node.target, self.value(node.iter, scope), scope)
                for value in _elements(self.value(node.iter, scope)):
                    self._put(node.target, value, scope, replacing=True)
                    self._block(node.body, scope, returned)
                self._block(node.orelse, scope, returned)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    value = self.value(item.context_expr, scope)
                    if item.optional_vars is not None:
                        self._put(item.optional_vars, value, scope)
                return self._block(node.body, scope, returned)
            case ast.Match():
                self.value(node.subject, scope)
                for case in node.cases:
                    self._block(case.body, scope, returned)
            case ast.Try() | ast.TryStar():
                for body in (node.body, *(each.body for each in node.handlers), node.orelse):
                    self._block(body, scope, returned)
                self._block(node.finalbody, scope, returned)
            case ast.While():
                self.value(node.test, scope)
                self._block(node.body, scope, returned)
            case ast.ClassDef():
                pass
            case _:
                self._children(node, scope)
        return False

    def _loop(self, target: ast.expr, values: Any, scope: Scope) -> None:
        for value in _elements(values):
            self._put(target, value, scope, replacing=True)

    def _put(self, target: ast.expr, value: Any, scope: Scope, *, replacing: bool = False) -> None:
        match target:
            case ast.Name(name):
                if replacing:
                    scope.names[name] = value
                else:
                    scope.put(name, value)
            case ast.Tuple(parts) | ast.List(parts):
                known = isinstance(value, Several) and len(value.values) == len(parts)
                values = value.values if known else [UNKNOWN] * len(parts)
                for part, each in zip(parts, values, strict=True):
                    self._put(part, each, scope, replacing=replacing)
            case ast.Attribute(owner, name):
                made = self.value(owner, scope)
                if isinstance(made, Instance):
                    old = made.attributes.get(name, UNKNOWN)
                    made.attributes[name] = _joined(old, value)
                else:
                    self._give_away([value])

    # -- expressions

    def value(self, node: ast.expr, scope: Scope) -> Any:
        """Read an expression. Returns its value, as far as it is known."""
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return scope.get(name)
            case ast.Attribute(owner, name):
                return self._attribute(self.value(owner, scope), name)
            case ast.Await(inner) | ast.Starred(inner):
                return self.value(inner, scope)
            case ast.NamedExpr(target, inner):
                value = self.value(inner, scope)
                self._put(target, value, scope)
                return value
            case ast.Lambda():
                return self._closure(node, scope)
            case ast.Call():
                return self._called(node, scope)
            case ast.UnaryOp(ast.Not(), inner):
                value = self.value(inner, scope)
                return Decided(not value.yes) if isinstance(value, Decided) else UNKNOWN
            case ast.BoolOp():
                return self._both_or_one(node, scope)
            case ast.IfExp():
                decided = self.value(node.test, scope)
                if isinstance(decided, Decided):
                    return self.value(node.body if decided.yes else node.orelse, scope)
                return _joined(self.value(node.body, scope), self.value(node.orelse, scope))
            case ast.Tuple(parts) | ast.List(parts) | ast.Set(parts):
                return Several(tuple(self.value(each, scope) for each in parts))
            case ast.Dict():
                return Table(tuple(self.value(each, scope) for each in node.values))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                inner = Scope({}, scope, scope.module)
                for each in node.generators:
                    self._loop(each.target, self.value(each.iter, inner), inner)
                    for test in each.ifs:
                        if self.value(test, inner) == Decided(yes=False):
                            return Several(())
                made = node.value if isinstance(node, ast.DictComp) else node.elt
                return Several((self.value(made, inner),))
            case ast.Subscript(owner, _):
                self._children(node.slice, scope)
                value = self.value(owner, scope)
                return value if isinstance(value, Several) else UNKNOWN
            case _:
                self._children(node, scope)
                return UNKNOWN

    def _children(self, node: ast.AST, scope: Scope) -> None:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.expr):
                self.value(each, scope)
            else:
                self._children(each, scope)

    def _both_or_one(self, node: ast.BoolOp, scope: Scope) -> Any:
        """Read ``and`` and ``or``. Python may skip their later operands."""
        ends = isinstance(node.op, ast.Or)
        values: list[Any] = []
        for part in node.values:
            values.append(self.value(part, scope))
            if values[-1] == Decided(ends):
                return values[-1]
        if all(isinstance(each, Decided) for each in values):
            return Decided(not ends)
        return functools.reduce(_joined, values, UNKNOWN)

    def _attribute(self, owner: Any, name: str) -> Any:
        match owner:
            case Instance():
                if name in owner.attributes:
                    return owner.attributes[name]
                return self._of_class(owner, name)
            case Closure():
                return owner  # the name is ``refresh``, the owner a refreshable function
            case Several():
                return functools.reduce(
                    _joined, (self._attribute(each, name) for each in owner.values), UNKNOWN
                )
            case _Unknown() | Bound() | Decided():
                return UNKNOWN
        try:
            return getattr(owner, name)
        except Exception:  # noqa: BLE001 - a property of any object
            return UNKNOWN

    def _of_class(self, owner: Instance, name: str) -> Any:
        try:
            found = inspect.getattr_static(owner.of, name)
        except AttributeError:
            return UNKNOWN
        match found:
            case FunctionType():
                return Bound(found, (owner,))
            case property() if found.fget is not None:
                return self.call(found.fget, (owner,))
            case staticmethod():
                return found.__func__
            case ui.refreshable():
                return Bound(found.func, (owner,))
            case _:
                return UNKNOWN

    def _called(self, node: ast.Call, scope: Scope) -> Any:
        match node.func:
            case ast.Attribute(owner, "items" | "values" | "get" as name):
                table = self.value(owner, scope)
                if isinstance(table, Table):
                    pairs = tuple(Several((UNKNOWN, each)) for each in table.values)
                    return Several(pairs if name == "items" else table.values)
        function = self.value(node.func, scope)
        arguments = [self.value(each, scope) for each in node.args]
        named = {each.arg or "": self.value(each.value, scope) for each in node.keywords}
        named.pop("", None)
        if function is functools.partial and arguments:
            return Bound(arguments[0], tuple(arguments[1:]), named)
        if function in (tuple, list, sorted, reversed) and arguments:
            return arguments[0]
        return self.call(function, arguments, **named)

    def _closure(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope
    ) -> Closure:
        spec = node.args
        names = [each.arg for each in (*spec.posonlyargs, *spec.args)]
        last = names[len(names) - len(spec.defaults) :]
        defaults = {
            name: self.value(each, scope) for name, each in zip(last, spec.defaults, strict=True)
        }
        for each, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if default is not None:
                defaults[each.arg] = self.value(default, scope)
        return Closure(node, scope, defaults)


def _joined(old: Any, new: Any) -> Any:
    """The value of a name after two branches. If both values can be called, the result has both."""
    if old is UNKNOWN or old is new or old is None:
        return new
    if new is UNKNOWN or new is None:
        return old
    if isinstance(old, Several) and isinstance(new, Several) and len(old.values) == len(new.values):
        return Several(tuple(map(_joined, old.values, new.values)))
    callable_kinds = (
        Closure | Bound | BoundAction | BoundQuery | MethodType | FunctionType | Several
    )
    if isinstance(old, callable_kinds) and isinstance(new, callable_kinds):
        parts = [*_elements_of(old), *_elements_of(new)]
        return Several(tuple({id(each): each for each in parts}.values()))
    return UNKNOWN if isinstance(old, Decided) or isinstance(new, Decided) else new


def _elements_of(value: Any) -> tuple[Any, ...]:
    return value.values if isinstance(value, Several) else (value,)


def _elements(values: Any) -> tuple[Any, ...]:
    """The elements of these values for a loop; one unknown element if they are not known."""
    known = isinstance(values, Several) and not isinstance(values, Table)
    return values.values or (UNKNOWN,) if known else (UNKNOWN,)


def _identity(value: Any) -> Any:
    match value:
        case Several():
            return tuple(_identity(each) for each in value.values)
        case Closure():
            return id(value.node)
        case Bound():
            return _identity(value.function)
        case str() | int() | float() | Decided():
            return value
        case BoundAction() | BoundQuery():
            return value.full_name
        case Instance():
            views = tuple(id(each) for each in value.attributes.values() if isinstance(each, View))
            return value.of, views
        case _:
            return type(value) if isinstance(value, MethodType) else id(value)


def _ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).startswith(ROOM)


@functools.cache
def _functions_of(file: str) -> dict[tuple[int, str], ast.FunctionDef | ast.AsyncFunctionDef]:
    return {
        (min([node.lineno, *(each.lineno for each in node.decorator_list)]), node.name): node
        for node in ast.walk(ast.parse(Path(file).read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _source_of(function: FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef:
    code = function.__code__
    if not Path(code.co_filename).is_file():
        raise LookupError(f"{function.__qualname__} has no source")
    return _functions_of(code.co_filename)[code.co_firstlineno, code.co_name]


def uses_of(draw: Any, view: View) -> Iterator[Use]:
    """The operations that a page's draw function can reach for the person of the view."""
    reader, limit = Reader(), sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        reader.call(draw, (view,))
    finally:
        sys.setrecursionlimit(limit)
    yield from reader.uses.values()
