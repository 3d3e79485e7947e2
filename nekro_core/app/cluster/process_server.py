"""Answers what the consoles of gateways ask this process: its state, operations, calls of tools. If
an operation or a call concerns a chat, it is refused unless this process owns the chat."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loguru import logger
from pydantic_core import to_jsonable_python

from nekro_core.agent.turn.tool_service import NO_CHAT
from nekro_core.app.cluster.process_state import OwnState
from nekro_core.chat.key import ChatKey, ChatKeyError
from nekro_core.cluster.partition_log import partition_of
from nekro_core.cluster.process_messages import (
    AskedBy,
    OperationDone,
    OperationRefused,
    OperationRequest,
    ProcessAnswer,
    ProcessRequest,
    RefusalKind,
    StateRequest,
    ToolDone,
    ToolRequest,
    UndoData,
)
from nekro_core.operator.actions import BoundAction
from nekro_core.operator.audit import Change
from nekro_core.operator.contract import ToolService
from nekro_core.operator.elsewhere import ProcessChoice
from nekro_core.operator.errors import (
    ChangedMeanwhile,
    InvalidParameters,
    NoSuchItem,
    NotAllowed,
)
from nekro_core.operator.json_values import to_json_values
from nekro_core.operator.operator import Operation, Operator
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.store import Ownership, OwnershipLost, writing_as
from nekro_core.system.errors import NekroError

_KINDS: Mapping[type[NekroError], RefusalKind] = {
    NotAllowed: RefusalKind.NOT_ALLOWED,
    InvalidParameters: RefusalKind.PARAMETERS,
    NoSuchItem: RefusalKind.NO_SUCH_ITEM,
    ChangedMeanwhile: RefusalKind.CHANGED,
    OwnershipLost: RefusalKind.NOT_OWNER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessServer:
    """Handles the requests of gateways.

    Attributes:
        operator: The operations of this process.
        tools: The tools of this process.
        state: Reads the state of this process.
        owned: The partitions that this process owns.
        partitions: The number of partitions of the cluster.
    """

    operator: Operator
    tools: ToolService
    state: OwnState
    owned: Mapping[int, Ownership]
    partitions: int

    async def handle(self, request: ProcessRequest) -> ProcessAnswer:
        """Handle one request. An error that is written for people becomes `OperationRefused`."""
        if isinstance(request, StateRequest):
            return await self.state.read()
        try:
            if isinstance(request, ToolRequest):
                return await self._call_tool(request)
            return await self._carry_out(request)
        except NekroError as error:
            kind = next((_KINDS[each] for each in type(error).__mro__ if each in _KINDS), None)
            problems = error.problems if isinstance(error, InvalidParameters) else {}
            return OperationRefused(kind or RefusalKind.REFUSED, str(error), problems)

    async def _carry_out(self, request: OperationRequest) -> ProcessAnswer:
        operation = self.operator.operation(request.operation)
        actor = _actor(request.asked_by)
        if operation.declaration.process is ProcessChoice.HERE:
            raise NotAllowed(f"{request.operation} cannot be asked of another process")
        if operation.declaration.process is ProcessChoice.ANY:
            return _done(operation, await operation.carry_out_here(actor, request.parameters))
        chat_key = _chat(request.chat_key)
        # With this, nothing is stored for a chat that another worker owns by now.
        with writing_as(self._ownership(chat_key)):
            valid = operation.validate(request.parameters)
            if await operation.area.chat_of(valid) != chat_key:
                raise InvalidParameters({"chat_key": f"the parameters do not concern {chat_key}"})
            if operation.declaration.acts:
                logger.info("{}: {} by {}", chat_key, request.operation, actor.name)
            return _done(operation, await operation.carry_out_here(actor, request.parameters))

    async def _call_tool(self, request: ToolRequest) -> ToolDone:
        chat_key = _chat(request.chat_key) if request.chat_key else None
        owner = chat_key or NO_CHAT
        if _chat(request.owner) != owner:
            raise InvalidParameters({"owner": f"the tool is called in {owner}"})
        with writing_as(self._ownership(owner)):
            answer = await self.tools.call(chat_key, request.name, request.arguments)
        return ToolDone.of(answer)

    def _ownership(self, chat_key: ChatKey) -> Ownership:
        """Return the ownership of a chat. Raises `OwnershipLost`."""
        ownership = self.owned.get(partition_of(chat_key, self.partitions))
        if ownership is None:
            raise OwnershipLost(f"this worker does not own {chat_key}")
        return ownership


def _chat(text: str) -> ChatKey:
    try:
        return ChatKey.parse(text)
    except ChatKeyError as error:
        raise InvalidParameters({"chat_key": str(error)}) from None


def _actor(asked: AskedBy) -> Actor:
    try:
        return Actor(
            name=asked.name,
            role=AccessRole(asked.role),
            origin=RequestOrigin(asked.origin),
            address=asked.address,
        )
    except ValueError as error:
        raise NotAllowed(f"the request of a gateway cannot be read: {error}") from None


def _done(operation: Operation, outcome: object) -> OperationDone:
    """Return the outcome of an operation as JSON values."""
    kind = operation.declaration.result_type
    if not isinstance(operation, BoundAction):
        return OperationDone(to_json_values(kind, outcome))
    assert isinstance(outcome, Change), "an action returns a change"
    undo = outcome.undo
    return OperationDone(
        to_json_values(kind, outcome.result),
        subject=outcome.subject,
        old=_plain(outcome.old),
        new=_plain(outcome.new),
        undo=UndoData(undo.action, dict(_plain(undo.parameters))) if undo else None,
    )


def _plain(value: object) -> Any:
    """Return a value of the audit log as JSON values. Secrets become stars, as in the log."""
    return to_jsonable_python(value, fallback=str)
