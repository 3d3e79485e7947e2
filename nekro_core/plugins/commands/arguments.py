"""Reads a command's arguments from its handler's signature when the plugin is loaded."""

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

from nekro_core.system.errors import NekroError

REQUIRED: Final = inspect.Parameter.empty
"""Marks an argument without a default."""
_LISTS = (list, set, frozenset, tuple)


class ArgInfo(msgspec.Struct, frozen=True, kw_only=True):
    """See `Arg`."""

    description: str = ""
    default: Any = REQUIRED
    positional: bool = False
    greedy: bool = False
    choices: tuple[Any, ...] = ()
    range: tuple[float, float] | None = None
    prompt_hint: str = ""


def Arg(  # noqa: N802 - existing plugins use this name
    description: str = "",
    *,
    default: Any = REQUIRED,
    positional: bool = False,
    greedy: bool = False,
    choices: Sequence[Any] | None = None,
    range: tuple[float, float] | None = None,  # noqa: A002 - existing plugins use this name
    prompt_hint: str | None = None,
) -> Any:
    """Describe an argument. Use it as the default of a parameter or inside ``Annotated``.

    People type ``name:value`` (``name:"some words"``) or only the value. Values without a name go
    to the ``positional`` arguments first, then to the other arguments, in the order of the
    parameters.

    Args:
        description: What the argument means.
        default: The value if the person types none. Without a default, the argument is required.
        positional: Whether values without a name go to this argument first.
        greedy: Whether the argument takes the rest of the line as typed.
        choices: The values that are accepted; None for any.
        range: The minimum and the maximum of a number, or of the length of a text; None for any.
        prompt_hint: The text that asks the person for the argument if it is missing.

    Returns:
        A placeholder. It is replaced by the default when the command is mounted.
    """
    return ArgInfo(
        description=description,
        default=default,
        positional=positional or greedy,
        greedy=greedy,
        choices=tuple(choices or ()),
        range=range,
        prompt_hint=prompt_hint or "",
    )


class BadSignature(NekroError, TypeError):
    """A function cannot be a command's handler. The message says why."""


class CommandParameter(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a command. ``kind`` is the name of the argument's type that people see."""

    name: str
    kind: str
    info: ArgInfo
    adapter: TypeAdapter[Any]
    many: bool = False
    """Whether the argument is a list, typed with commas."""

    @property
    def required(self) -> bool:
        """Whether the person must type the argument."""
        return self.info.default is REQUIRED

    @property
    def usage(self) -> str:
        """The argument in the usage line: ``<city>``, ``[days:3]``, ``<text...>``."""
        shown = f"{self.name}..." if self.info.greedy else self.name
        if self.required:
            return f"<{shown}>"
        default = self.info.default
        plain = isinstance(default, str | int | float) and default != ""
        return f"[{shown}:{default}]" if plain else f"[{shown}]"


class CommandSignature(msgspec.Struct, frozen=True):
    """The arguments of a handler. ``open`` means that the handler has ``**kwargs``, so any name is
    accepted."""

    parameters: tuple[CommandParameter, ...]
    open: bool = False

    @property
    def usage(self) -> str:
        """The usage line's part for all arguments."""
        return " ".join(parameter.usage for parameter in self.parameters)


def signature_of(handler: Callable[..., Any]) -> CommandSignature:
    """Read the arguments of a handler ``async (context, ...)``. Raises `BadSignature`."""
    if not (inspect.iscoroutinefunction(handler) or inspect.isasyncgenfunction(handler)):
        raise BadSignature(f"{handler.__name__} is not async: write async def")
    signature = inspect.signature(handler)
    first, *rest = signature.parameters.values() or (None,)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        raise BadSignature(f"{handler.__name__}{signature}: expected 'context' as first parameter")
    hints = _hints(handler)
    parameters = []
    takes_all = False
    for parameter in rest:
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_all = True
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise BadSignature(
                f"{handler.__name__}{signature}: {parameter.name} cannot be given by name; "
                "for the rest of a line write a str with Arg(greedy=True)"
            )
        else:
            parameters.append(_parameter(parameter, hints.get(parameter.name, str)))
    return CommandSignature(tuple(parameters), takes_all)


def _hints(handler: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(handler, include_extras=True)
    except Exception as error:  # noqa: BLE001 - this evaluates annotations, which is plugin code
        raise BadSignature(
            f"{handler.__name__}: its annotations cannot be read ({type(error).__name__}: {error})"
        ) from None


def _parameter(parameter: inspect.Parameter, annotation: Any) -> CommandParameter:
    info = ArgInfo()
    if get_origin(annotation) is Annotated:
        annotation, *extras = get_args(annotation)
        info = next((extra for extra in extras if isinstance(extra, ArgInfo)), info)
    default = parameter.default
    if isinstance(default, ArgInfo):
        info, default = default, default.default
    elif default is REQUIRED:
        default = info.default
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise BadSignature(
            f"{parameter.name}: a text cannot be made a {annotation!r} ({error})"
        ) from None
    bare = _without_none(annotation)
    return CommandParameter(
        name=parameter.name,
        kind=_told(bare),
        info=ArgInfo(
            description=info.description,
            default=default,
            positional=info.positional,
            greedy=info.greedy,
            choices=info.choices,
            range=info.range,
            prompt_hint=info.prompt_hint,
        ),
        adapter=adapter,
        many=(get_origin(bare) or bare) in _LISTS,
    )


def _without_none(annotation: Any) -> Any:
    """Get ``X`` from ``X | None``."""
    if get_origin(annotation) in (Union, types.UnionType):
        others = [each for each in get_args(annotation) if each is not type(None)]
        if len(others) == 1:
            return others[0]
    return annotation


def _told(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " | ".join(map(str, get_args(annotation)))
    if get_origin(annotation) is None and isinstance(annotation, type):
        return annotation.__name__
    return str(annotation).replace("typing.", "")
