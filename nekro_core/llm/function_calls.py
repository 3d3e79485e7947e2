"""Assembles function calls from the pieces of a stream.

Source: ``choices[].delta.tool_calls`` of the chat completion chunk object of the OpenAI API
reference. Endpoints differ. Pieces of several calls may be mixed. The index may be missing, or the
same for every call. The id or the name may be in every piece. The arguments may be a JSON object
instead of a text with JSON. The assembler accepts all these forms. If the arguments are not strict
JSON, the assembler does not guess what is meant: the call gets a ``problem`` and is not carried
out.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from nekro_core.llm.model import FunctionCall
from nekro_core.system.errors import NekroError

MAX_CALLS = 256
"""Maximum number of calls of one reply. A model that makes more calls is repeating itself."""
_SHOWN = 200
"""Maximum number of characters of invalid arguments that the ``problem`` quotes."""


class TooManyFunctionCalls(NekroError):
    """A reply has more than `MAX_CALLS` calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCallDelta:
    """A piece of a call, from one chunk. A missing field is ``None`` or empty."""

    index: int | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    whole: bool = False
    """Whether this piece holds the complete ``arguments``."""
    provider_data: str = ""
    """JSON that the provider wants back with the call."""


@dataclass(slots=True)
class _Begun:
    """A call of which at least one piece has arrived."""

    index: int | None
    call_id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    whole: bool = False
    provider_data: str = ""

    @property
    def written(self) -> str:
        return "".join(self.arguments)


class FunctionCallAssembler:
    """Collects the calls of one reply. ``made_by`` is the name of the model."""

    def __init__(self, made_by: str = "") -> None:
        self._made_by = made_by
        self._begun: list[_Begun] = []
        self._last: _Begun | None = None

    def feed(self, piece: FunctionCallDelta) -> None:
        """Add a piece. Raises `TooManyFunctionCalls`."""
        call = self._call_of(piece)
        self._last = call
        call.call_id = call.call_id or piece.call_id
        if piece.name and piece.name != call.name and not call.arguments:
            call.name += piece.name
        if piece.arguments:
            call.arguments.append(piece.arguments)
        call.whole = call.whole or piece.whole
        call.provider_data = piece.provider_data or call.provider_data

    def finish(self, *, cut: str = "") -> tuple[FunctionCall, ...]:
        """Return all calls in the order of their indexes. Calls without an index are in the order
        of their arrival.

        ``cut`` is set if the reply ended too early, and says why. In that case the last call and
        all calls without arguments may be incomplete, so they get a ``problem``.
        """
        ids: set[str] = set()
        calls = []
        for number, begun in enumerate(sorted(self._begun, key=lambda call: call.index or 0)):
            call_id = begun.call_id
            if not call_id or call_id in ids:
                call_id = f"call{number:05d}"  # Mistral accepts only ids of nine letters and digits
            ids.add(call_id)
            half = cut and not begun.whole and (begun is self._last or not begun.arguments)
            arguments, problem = _read(begun.written)
            if half:
                problem = f"the call is not whole: {cut}"
            elif not begun.name:
                problem = "the call names no function"
            calls.append(
                FunctionCall(
                    call_id=call_id,
                    name=begun.name,
                    written=begun.written or "{}",
                    arguments={} if problem else arguments,
                    problem=problem,
                    provider_data=begun.provider_data,
                    made_by=self._made_by if begun.provider_data else "",
                )
            )
        return tuple(calls)

    def _call_of(self, piece: FunctionCallDelta) -> _Begun:
        """Return the call that a piece belongs to, or begin a new call."""
        for call in self._begun:
            if piece.index is not None:
                # Some endpoints give every call the index 0, so the ids must be equal too.
                same = call.index == piece.index and not (
                    piece.call_id and call.call_id and piece.call_id != call.call_id
                )
            else:
                same = bool(piece.call_id) and piece.call_id == call.call_id
            if same and not (call.whole and piece.whole):
                return call
        if piece.index is None and not piece.call_id and not piece.name and self._last:
            return self._last
        if len(self._begun) == MAX_CALLS:
            raise TooManyFunctionCalls(f"a reply with more than {MAX_CALLS} function calls")
        call = _Begun(piece.index, piece.call_id)
        self._begun.append(call)
        return call


def _read(written: str) -> tuple[dict[str, Any], str]:
    """Return the parsed arguments, and the reason if they cannot be parsed."""
    if not written.strip():
        return {}, ""  # The call has no arguments.
    try:
        value = _STRICT.decode(written)
    except RecursionError:
        return {}, "the arguments are nested too deep"
    except ValueError as error:
        shown = written if len(written) <= _SHOWN else f"{written[:_SHOWN]}…"
        return {}, f"the arguments are no JSON ({error}): {shown}"
    if not isinstance(value, dict):
        return {}, f"the arguments are no JSON object: {written[:_SHOWN]}"
    return value, ""


def _pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(found)
    if len(result) != len(found):
        raise ValueError("a key that stands twice")
    return result


def _constant(name: str) -> Any:
    raise ValueError(f"the number {name}")


_STRICT = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)
