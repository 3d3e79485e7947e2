"""Declares what an operator may see and do. A query reads something and an action changes
something. Both are methods of an area.

An area is a class, for example `chats.Chats`. Each of its operations is a method with a decorator::

    class Chats(Area):
        name = "chats"

        @query(role=AccessRole.VIEWER)
        async def history(self, actor: Actor, *, chat_key: ChatKey, limit: int = 50) -> list[Line]:
            ...

        @action(role=AccessRole.OPERATOR)
        async def stop(self, actor: Actor, *, chat_key: ChatKey) -> Change[bool]:
            ...

Pages, the HTTP API and the command line call the same method: ``await chats.stop(actor,
chat_key=key)`` from a page, and ``operation.invoke(actor, {"chat_key": "web-private_lin"})`` from
the HTTP API and the command line. Both calls check the actor's role and scopes, and validate the
parameters with a pydantic model that is made from the signature. An action is also written to the
audit log.

In a cluster, the sessions and boxes of a chat are in the worker that owns the chat. An operation
that needs them has ``process=ProcessChoice.OWNER`` in its decorator. The console of a gateway then
checks the role, validates the parameters and writes the audit log, and the worker carries the
operation out.

An action that takes long has a parameter ``progress: Progress = NO_PROGRESS``. Callers do not pass
this parameter; `jobs.Jobs` passes it.
"""

import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import (
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    overload,
)

import anyio
from docstring_parser import parse
from docstring_parser.common import DocstringStyle
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from nekro_core.chat import ChatKey
from nekro_core.operator.audit import AuditLog, Change, Done
from nekro_core.operator.elsewhere import OtherProcesses, ProcessChoice
from nekro_core.operator.errors import InvalidParameters, NotAllowed, OperatorError
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.system.errors import NekroError

_AUDIT_S = 10.0
"""Maximum time in seconds to store that an action failed or was cancelled."""


A = TypeVar("A", bound="Area")
P = ParamSpec("P")
Result = TypeVar("Result")


class Progress(Protocol):
    """Receives the progress of a long action."""

    def report(
        self,
        text: str,
        *,
        done: float = 0.0,
        total: float = 0.0,
        code: str = "",
        **values: str | float,
    ) -> None:
        """Report how much of the action is done.

        Args:
            text: What happens now, in a few words of English.
            done: How much is done, in any unit.
            total: How much there is to do, in the same unit; 0 if this is not known.
            code: A stable word for the text. By this word the console finds the text in the
                person's language.
            **values: The values that are filled into the text of the console.
        """


class _NoProgress:
    def report(
        self,
        text: str,
        *,
        done: float = 0.0,
        total: float = 0.0,
        code: str = "",
        **values: str | float,
    ) -> None:
        """Do nothing."""


NO_PROGRESS: Progress = _NoProgress()
"""Ignores all progress."""


class Area:
    """A part of what an operator may see and do. Its methods with `query` and `action` are its
    operations."""

    name: str
    """The first part of the operations' full names, for example ``chats``."""

    others: OtherProcesses | None = None
    """The other processes of the cluster, if this process is a gateway."""

    def __init__(self, audit: AuditLog) -> None:
        self.audit_log = audit

    async def chat_of(self, parameters: Mapping[str, Any]) -> ChatKey | None:
        """Return the chat that an operation with `ProcessChoice.OWNER` concerns. The owner of this
        chat carries the operation out.

        Args:
            parameters: The validated parameters of the operation.

        Returns:
            The chat; None if this process carries the operation out.
        """
        chat_key: ChatKey | None = parameters.get("chat_key")
        return chat_key

    @classmethod
    def declared(cls) -> "dict[str, Declaration]":
        """Return the declarations of all operations by the name of their method."""
        found: dict[str, Declaration] = {}
        for each in reversed(cls.__mro__):
            for name, value in vars(each).items():
                if isinstance(value, QueryMethod | ActionMethod):
                    found[name] = value.declaration
        return found


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The arguments of an operation's decorator, and what is read from its signature.

    Attributes:
        handler: The function.
        role: The role that an actor needs.
        acts: Whether it is an action.
        destructive: Whether the action deletes something that cannot be brought back. The console
            asks the person before it calls such an action.
        takes_file: Whether a parameter is a file in base64, so that a call may be large.
        process: Which process of a cluster carries it out.
    """

    handler: Callable[..., Awaitable[Any]]
    role: AccessRole
    acts: bool
    destructive: bool = False
    takes_file: bool = False
    process: ProcessChoice = ProcessChoice.HERE

    @cached_property
    def summary(self) -> str:
        """The first paragraph of the docstring."""
        first, _, _ = (inspect.getdoc(self.handler) or "").partition("\n\n")
        return " ".join(first.split())

    @cached_property
    def long(self) -> bool:
        """True if the operation reports its progress."""
        return "progress" in inspect.signature(self.handler).parameters

    @cached_property
    def result_type(self) -> Any:
        """The type of what the operation returns. For an action, the type of `Change.result`."""
        returned = self._hints["return"]
        if not self.acts:
            return returned
        (inner,) = typing.get_args(returned)
        return inner

    @cached_property
    def parameters(self) -> type[BaseModel]:
        """The pydantic model of the parameters. It refuses unknown names."""
        told = {each.arg_name: each.description or "" for each in self._document.params}
        fields: dict[str, Any] = {}
        for each in [*inspect.signature(self.handler).parameters.values()][2:]:
            if each.name == "progress":
                continue
            if each.kind is not inspect.Parameter.KEYWORD_ONLY:
                raise TypeError(f"{self.handler.__qualname__}: {each.name} must be keyword-only")
            default = ... if each.default is inspect.Parameter.empty else each.default
            about = " ".join(told.get(each.name, "").split())
            fields[each.name] = (self._hints[each.name], Field(default=default, description=about))
        return create_model(
            self.handler.__qualname__.replace(".", "_"),
            __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=True),
            **fields,
        )

    @cached_property
    def _document(self) -> Any:
        return parse(inspect.getdoc(self.handler) or "", DocstringStyle.GOOGLE)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return typing.get_type_hints(self.handler, include_extras=True)


@dataclass(frozen=True, slots=True)
class _Bound:
    """An operation of one area object."""

    area: Area
    declaration: Declaration

    @property
    def full_name(self) -> str:
        """The name in the audit log and the HTTP API, for example ``chats.stop``."""
        return f"{self.area.name}.{self.declaration.handler.__name__}"

    def check_role(self, actor: Actor) -> None:
        """Raise `NotAllowed` unless the actor may call the operation."""
        needed = self.declaration.role
        if not actor.role.allows(needed):
            raise NotAllowed(f"{self.full_name} needs the role {needed}, not {actor.role}")
        if not actor.in_scope(self.area.name, acts=self.declaration.acts):
            verb = "act" if self.declaration.acts else "read"
            raise NotAllowed(f"{self.full_name} needs the scope {self.area.name}:{verb}")

    def validate(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters with their declared types. Raises `InvalidParameters`."""
        try:
            model = self.declaration.parameters.model_validate({**parameters})
        except ValidationError as error:
            raise InvalidParameters(_problems(error)) from None
        return {name: getattr(model, name) for name in type(model).model_fields}

    async def carry_out_here(self, actor: Actor, parameters: Mapping[str, Any]) -> Any:
        """Carry the operation out for the gateway whose console was asked. The gateway writes the
        audit log.

        Args:
            actor: Who asks.
            parameters: The parameters by name, as JSON values.

        Returns:
            What the method of the area returns: the answer of a query, the `Change` of an action.
        """
        self.check_role(actor)
        valid = self.validate(parameters)
        return await self.declaration.handler(self.area, actor, **valid)

    async def _carry_out(self, actor: Actor, valid: Mapping[str, Any], **extra: Any) -> Any:
        """Carry the operation out, here or at the owner of the chat."""
        others = self.area.others
        if others is not None and self.declaration.process is ProcessChoice.OWNER:
            chat_key = await self.area.chat_of(valid)
            if chat_key is not None:
                return await others.at_owner(self, actor, chat_key, valid)
        return await self.declaration.handler(self.area, actor, **valid, **extra)


class BoundQuery(_Bound, Generic[P, Result]):
    """A query of one area object."""

    __slots__ = ()

    async def __call__(self, actor: Actor, *args: P.args, **parameters: P.kwargs) -> Result:
        """Return the answer. Raises `OperatorError` and the errors of the query."""
        return await self.invoke(actor, _named(args, parameters))

    async def invoke(self, actor: Actor, parameters: Mapping[str, Any]) -> Result:
        """Do the same as `__call__`, with parameters by name as a page or the HTTP API received
        them."""
        self.check_role(actor)
        result: Result = await self._carry_out(actor, self.validate(parameters))
        return result


class BoundAction(_Bound, Generic[P, Result]):
    """An action of one area object."""

    __slots__ = ()

    async def __call__(self, actor: Actor, *args: P.args, **parameters: P.kwargs) -> Done[Result]:
        """Carry the action out. Raises `OperatorError` and the errors of the action."""
        return await self.invoke(actor, _named(args, parameters))

    async def invoke(
        self, actor: Actor, parameters: Mapping[str, Any], progress: Progress = NO_PROGRESS
    ) -> Done[Result]:
        """Do the same as `__call__`, with parameters by name as a page or the HTTP API received
        them."""
        audit = self.area.audit_log
        try:
            self.check_role(actor)
        except NotAllowed as error:
            await audit.denied(actor, self.full_name, str(error))
            raise
        given = {name: value for name, value in parameters.items() if name != "progress"}
        valid = self.validate(given)
        if wait_s := audit.limit.take(actor):
            raise NotAllowed(f"too many actions from your address: wait {wait_s:.0f} s")
        entry_id = await audit.begin(actor, self.full_name, valid)
        extra = {"progress": progress} if self.declaration.long else {}
        try:
            change: Change[Result] = await self._carry_out(actor, valid, **extra)
        except BaseException as error:
            with anyio.move_on_after(_AUDIT_S, shield=True):
                await audit.failed(entry_id, _outcome(error), _text_of(error))
            raise
        await audit.done(entry_id, change)
        return Done(result=change.result, entry_id=entry_id, undoable=change.undo is not None)


class QueryMethod(Generic[A, P, Result]):
    """A method that reads. See `query`."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration

    @overload
    def __get__(self, area: None, owner: type[A]) -> Self: ...
    @overload
    def __get__(self, area: A, owner: type[A]) -> BoundQuery[P, Result]: ...
    def __get__(self, area: A | None, owner: type[A]) -> "Self | BoundQuery[P, Result]":
        """Return the query of this area object."""
        return self if area is None else BoundQuery(area, self.declaration)


class ActionMethod(Generic[A, P, Result]):
    """A method that changes something. See `action`."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration

    @overload
    def __get__(self, area: None, owner: type[A]) -> Self: ...
    @overload
    def __get__(self, area: A, owner: type[A]) -> BoundAction[P, Result]: ...
    def __get__(self, area: A | None, owner: type[A]) -> "Self | BoundAction[P, Result]":
        """Return the action of this area object."""
        return self if area is None else BoundAction(area, self.declaration)


def query(
    *, role: AccessRole, process: ProcessChoice = ProcessChoice.HERE
) -> Callable[[Callable[Concatenate[A, Actor, P], Awaitable[Result]]], QueryMethod[A, P, Result]]:
    """Declare a method that reads.

    Args:
        role: The role that an actor needs.
        process: Which process of a cluster carries it out.

    Returns:
        The decorator.
    """

    def declare(
        handler: Callable[Concatenate[A, Actor, P], Awaitable[Result]],
    ) -> QueryMethod[A, P, Result]:
        return QueryMethod(Declaration(handler=handler, role=role, acts=False, process=process))

    return declare


def action(
    *,
    role: AccessRole,
    destructive: bool = False,
    takes_file: bool = False,
    process: ProcessChoice = ProcessChoice.HERE,
) -> Callable[
    [Callable[Concatenate[A, Actor, P], Awaitable[Change[Result]]]], ActionMethod[A, P, Result]
]:
    """Declare a method that changes something.

    Args:
        role: The role that an actor needs.
        destructive: Whether it deletes something that cannot be brought back.
        takes_file: Whether a parameter is a file in base64, so that a call may be large.
        process: Which process of a cluster carries it out.

    Returns:
        The decorator.
    """

    def declare(
        handler: Callable[Concatenate[A, Actor, P], Awaitable[Change[Result]]],
    ) -> ActionMethod[A, P, Result]:
        declaration = Declaration(
            handler=handler,
            role=role,
            acts=True,
            destructive=destructive,
            takes_file=takes_file,
            process=process,
        )
        return ActionMethod(declaration)

    return declare


def _named(args: tuple[Any, ...], parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    if args:
        _refuse_positional(args)
    return parameters


def _refuse_positional(args: tuple[Any, ...]) -> NoReturn:
    raise TypeError(f"{len(args)} positional arguments; parameters are given by name")


def _problems(error: ValidationError) -> dict[str, str]:
    """Return what is wrong with each parameter, by its name. The values are left out, since they
    may be secrets."""
    return {
        ".".join(map(str, fault["loc"])) or "parameters": fault["msg"].removeprefix("Value error, ")
        for fault in error.errors(include_input=False, include_url=False)
    }


def _outcome(error: BaseException) -> str:
    match error:
        case OperatorError() | NekroError() | Exception():
            return "failed"
        case _:
            return "cancelled"


def _text_of(error: BaseException) -> str:
    return str(error) or type(error).__name__
