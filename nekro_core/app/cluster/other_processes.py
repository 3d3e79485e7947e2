"""Lets the console of a gateway reach the other processes of the cluster."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import anyio
from loguru import logger
from pydantic import ValidationError

from nekro_core.agent.turn.tool_service import NO_CHAT
from nekro_core.app.cluster.process_register import ProcessRegister, RegisteredProcess
from nekro_core.app.cluster.process_state import OwnState
from nekro_core.chat import ChatKey
from nekro_core.cluster.credentials import ClusterRole
from nekro_core.cluster.errors import (
    AnswerTooLarge,
    CallFailed,
    CallTooLarge,
    ClusterError,
    NobodyServes,
    RequestNotStored,
    ServerBusy,
)
from nekro_core.cluster.partition_log import partition_of
from nekro_core.cluster.process_calls import ProcessCalls
from nekro_core.cluster.process_messages import (
    AskedBy,
    OperationDone,
    OperationRefused,
    OperationRequest,
    ProcessAnswer,
    ProcessRequest,
    ProcessState,
    RefusalKind,
    StateRequest,
    ToolDone,
    ToolRequest,
)
from nekro_core.operator.actions import BoundAction
from nekro_core.operator.audit import Change, UndoCall
from nekro_core.operator.elsewhere import DeclaredOperation, ProcessChoice, ProcessView
from nekro_core.operator.errors import (
    ChangedMeanwhile,
    InvalidParameters,
    NoSuchItem,
    NotAllowed,
    OperatorError,
    ProcessAway,
    RefusedElsewhere,
)
from nekro_core.operator.json_values import from_json_values, parameters_to_json
from nekro_core.operator.operator import Operator
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.store import Store, StoreError
from nekro_core.system.errors import NekroError
from nekro_core.tools.offer import ToolAnswer

_LOOK_S = 1.0
"""Seconds between two readings of the owners of partitions, of the running turns and of new
records. Three short queries; pages show what they say."""
_FIND_S = 5.0
"""Maximum number of seconds that an operation waits for an owner of the chat. The chats of a worker
that was killed have another owner after about three seconds."""
_AGAIN_S = 0.25
_STATE_S = 2.0
"""Maximum number of seconds that the list of processes, or a query to all workers, waits for one
process."""
_QUERY_S = 15.0
"""Time limit of a query in seconds. It may have to wake a box."""
_ACTION_S = 60.0
"""Time limit of an action in seconds. A new conversation waits up to 10 s for the end of a turn,
and saving a box takes some seconds."""
_LONG_S = 600.0
"""Time limit in seconds of a tool, and of an action that reports its progress: the maximum of a
call."""
_ERRORS: Mapping[RefusalKind, type[OperatorError]] = {
    RefusalKind.NOT_ALLOWED: NotAllowed,
    RefusalKind.NO_SUCH_ITEM: NoSuchItem,
    RefusalKind.CHANGED: ChangedMeanwhile,
}
_CERTAINLY_NOT_ASKED = (NobodyServes, ServerBusy, CallTooLarge, RequestNotStored)
"""The errors after which a call was certainly not made, so it may be made again. `AnswerTooLarge`
is a `CallTooLarge` too, but after it the call was made."""
_NOTHING_CHANGED = "Nothing was changed; try again"
_Answer = TypeVar("_Answer")
_BOT = Actor(name="bot", role=AccessRole.OPERATOR, origin=RequestOrigin.SYSTEM)


@dataclass(slots=True, kw_only=True)
class ClusterProcesses:
    """Implements `OtherProcesses` for a gateway.

    Attributes:
        operator: The operations of this gateway.
        calls: Carries the requests.
        register: The list of processes.
        own: Reads the state of this process.
        store: The database.
        partitions: The number of partitions of the cluster.
    """

    operator: Operator
    calls: ProcessCalls
    register: ProcessRegister
    own: OwnState
    store: Store
    partitions: int
    _owners: list[str] = field(default_factory=list)
    _working: frozenset[ChatKey] = field(default_factory=frozenset)
    _problem: str = ""

    @property
    def node(self) -> str:
        """See `OtherProcesses.node`."""
        return self.register.own.node

    async def live(self) -> None:
        """Read the owners of partitions, the running turns and which chats have new records, again
        and again. Never returns."""
        while True:
            try:
                await self.look()
                await self.store.messages.read_newer()
                self._problem = ""
            except StoreError as error:
                if not self._problem:
                    logger.warning("the console shows old owners of chats: {}", error)
                self._problem = str(error)
            await anyio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Read the owners of partitions and the running turns. Raises `StoreError`."""
        self._owners = [each.worker for each in await self.store.partitions.all()]
        self._working = frozenset(each.chat_key for each in await self.store.turns.interrupted())

    def worker_of(self, chat_key: ChatKey) -> str:
        """See `OtherProcesses.worker_of`."""
        partition = partition_of(chat_key, self.partitions)
        return self._owners[partition] if partition < len(self._owners) else ""

    def working(self, chat_key: ChatKey) -> bool:
        """See `OtherProcesses.working`."""
        return chat_key in self._working

    def all_working(self) -> Collection[ChatKey]:
        """See `OtherProcesses.all_working`."""
        return self._working

    async def stop(self, chat_key: ChatKey) -> bool:
        """See `OtherProcesses.stop`."""
        operation = self.operator.chats.stop
        change = await self.at_owner(operation, _BOT, chat_key, {"chat_key": chat_key})
        return bool(change.result)

    async def at_owner(
        self,
        operation: DeclaredOperation,
        actor: Actor,
        chat_key: ChatKey,
        parameters: Mapping[str, Any],
    ) -> Any:
        """See `OtherProcesses.at_owner`."""
        request = _request(operation, actor, parameters, chat_key)

        async def ask(worker: str) -> Any:
            outcome = await self._carried_out(ClusterRole.WORKER, worker, operation, request)
            if isinstance(outcome, Change) and outcome.undo is not None:
                undo = await self._checked_undo(operation, chat_key, outcome.undo)
                return replace(outcome, undo=undo)
            return outcome

        return await self._at_owner(chat_key, ask)

    async def call_tool(
        self, chat_key: ChatKey | None, name: str, arguments: Mapping[str, Any]
    ) -> ToolAnswer:
        """See `OtherProcesses.call_tool`."""
        owner = chat_key or NO_CHAT
        request = ToolRequest(str(owner), name, dict(arguments), str(chat_key or ""))

        async def ask(worker: str) -> ToolAnswer:
            answer = await self._asked(ClusterRole.WORKER, worker, request, _LONG_S)
            if not isinstance(answer, ToolDone):
                raise RefusedElsewhere(f"worker {worker} answers something else than was asked")
            return answer.answer()

        return await self._at_owner(owner, ask)

    async def _at_owner(
        self, chat_key: ChatKey, ask: Callable[[str], Awaitable[_Answer]]
    ) -> _Answer:
        """Ask the worker that owns a chat. If the owner changes meanwhile, ask the next one. Raises
        `ProcessAway`, and the errors of ``ask``."""
        until = anyio.current_time() + _FIND_S
        while True:
            await self.look()
            worker = self.worker_of(chat_key)
            away = f"no worker owns the chat {chat_key} now: look at the page of processes"
            if worker:
                try:
                    return await ask(worker)
                except _NotThere as error:
                    away = str(error)
            if anyio.current_time() >= until:
                raise ProcessAway(f"{away}. {_NOTHING_CHANGED}")
            await anyio.sleep(_AGAIN_S)

    async def at_node(
        self, node: str, operation: DeclaredOperation, actor: Actor, parameters: Mapping[str, Any]
    ) -> Any:
        """See `OtherProcesses.at_node`."""
        found = next((each for each in await self.register.all() if each.node == node), None)
        if found is None:
            raise NoSuchItem(f"there is no process {node[:64]!r}")
        try:
            outcome = await self._carried_out(
                found.role, node, operation, _request(operation, actor, parameters)
            )
        except _NotThere as error:
            raise ProcessAway(f"{error}. {_NOTHING_CHANGED}") from None
        # `_checked_undo` needs a chat. An undo that cannot be checked is not offered.
        return replace(outcome, undo=None) if isinstance(outcome, Change) else outcome

    async def at_workers(
        self, operation: DeclaredOperation, actor: Actor, parameters: Mapping[str, Any]
    ) -> list[Any]:
        """See `OtherProcesses.at_workers`."""
        request = _request(operation, actor, parameters)
        found: list[Any] = []

        async def ask(node: str) -> None:
            try:
                found.append(
                    await self._carried_out(ClusterRole.WORKER, node, operation, request, _STATE_S)
                )
            except (_NotThere, OperatorError) as error:
                logger.debug("{} is left out: {}", node, error)

        workers = [each for each in await self.register.all() if each.role is ClusterRole.WORKER]
        async with anyio.create_task_group() as tasks:
            for each in workers:
                tasks.start_soon(ask, each.node)
        return found

    async def processes(self) -> list[ProcessView]:
        """See `OtherProcesses.processes`."""
        listed = await self.register.all()
        states: dict[str, ProcessState | str] = {}

        async def ask(each: RegisteredProcess) -> None:
            if each.node == self.node:
                states[each.node] = await self.own.read()
                return
            try:
                answer = await self.calls.ask(
                    each.role, each.node, StateRequest(), within_s=_STATE_S
                )
            except ClusterError as error:
                states[each.node] = str(error)
            else:
                unreadable = "its answer is not a state; it may have another version"
                states[each.node] = answer if isinstance(answer, ProcessState) else unreadable

        async with anyio.create_task_group() as tasks:
            for each in listed:
                tasks.start_soon(ask, each)
        return [self._view(each, states[each.node]) for each in listed]

    def _view(self, process: RegisteredProcess, state: ProcessState | str) -> ProcessView:
        node, role, here = process.node, process.role.value, process.node == self.node
        if isinstance(state, str):
            return ProcessView(
                node=node,
                role=role,
                here=here,
                reachable=False,
                problem=state,
                version=process.version,
                started=process.started,
                partitions=self._owners.count(node),
            )
        return ProcessView(
            node=node,
            role=role,
            here=here,
            reachable=True,
            problem=state.problem,
            version=state.version,
            started=state.started,
            partitions=state.partitions,
            turns_running=state.turns_running,
            turns_waiting=state.turns_waiting,
            chats=state.chats,
            boxes=state.boxes,
            memory=state.memory,
            accounts=state.accounts,
        )

    async def _carried_out(
        self,
        role: ClusterRole,
        node: str,
        operation: DeclaredOperation,
        request: OperationRequest,
        within_s: float | None = None,
    ) -> Any:
        """Have a process carry an operation out. Raises the errors of `_asked`."""
        answer = await self._asked(role, node, request, within_s or _time_limit(operation))
        if not isinstance(answer, OperationDone):
            raise RefusedElsewhere(f"{role} {node} answers something else than was asked")
        return _outcome(node, operation, answer)

    async def _checked_undo(
        self, operation: DeclaredOperation, chat_key: ChatKey, undo: UndoCall
    ) -> UndoCall | None:
        """Return the undo that a worker names, if it may be carried out with the rights of the
        operator who clicks it: an action of the same area, for the same chat, which the owner of a
        chat carries out and which destroys nothing. Otherwise return None.

        A thief of a worker's password can answer in a worker's place.
        """
        try:
            action = self.operator.operation(undo.action)
            declared = action.declaration
            allowed = (
                isinstance(action, BoundAction)
                and declared.process is ProcessChoice.OWNER
                and not declared.destructive
                and undo.action.partition(".")[0] == operation.full_name.partition(".")[0]
                and await action.area.chat_of(action.validate(undo.parameters)) == chat_key
            )
        except NekroError as error:
            logger.debug("{} cannot be checked: {}", undo.action, error)
            allowed = False
        if allowed:
            return undo
        logger.warning(
            "{} in {} cannot be undone: its worker names {!r}, which is no undo of it",
            operation.full_name,
            chat_key,
            undo.action[:80],
        )
        return None

    async def _asked(
        self, role: ClusterRole, node: str, request: ProcessRequest, within_s: float
    ) -> ProcessAnswer:
        """Ask a process. Raises `_NotThere` if the process has certainly done nothing because it is
        away or not the owner of the chat, `ProcessAway` if it may have done it, and the errors with
        which it refuses."""
        try:
            answer = await self.calls.ask(role, node, request, within_s=within_s)
        except CallFailed as error:
            raise RefusedElsewhere(f"{role} {node}: {error}") from None
        except ClusterError as error:
            if isinstance(error, _CERTAINLY_NOT_ASKED) and not isinstance(error, AnswerTooLarge):
                raise _NotThere(f"{role} {node} cannot be asked: {error}") from None
            raise ProcessAway(
                f"{role} {node} does not answer: {error}. It may have carried this out"
            ) from None
        match answer:
            case OperationRefused(RefusalKind.NOT_OWNER, reason):
                raise _NotThere(f"{role} {node}: {reason}")
            case OperationRefused(RefusalKind.PARAMETERS, _, problems):
                raise InvalidParameters(problems)
            case OperationRefused(kind, reason):
                raise _ERRORS.get(kind, RefusedElsewhere)(reason)
            case _:
                return answer


class _NotThere(NekroError):
    """A process has certainly not carried an operation out, because it cannot be called or is not
    the owner of the chat."""


def _request(
    operation: DeclaredOperation,
    actor: Actor,
    parameters: Mapping[str, Any],
    chat_key: ChatKey | None = None,
) -> OperationRequest:
    asked_by = AskedBy(actor.name, actor.role.value, actor.origin.value, actor.address)
    given = parameters_to_json(operation.declaration.parameters, parameters)
    return OperationRequest(operation.full_name, given, asked_by, str(chat_key or ""))


def _time_limit(operation: DeclaredOperation) -> float:
    if operation.declaration.long:
        return _LONG_S
    return _ACTION_S if operation.declaration.acts else _QUERY_S


def _outcome(node: str, operation: DeclaredOperation, done: OperationDone) -> Any:
    """Read the outcome of an operation."""
    try:
        result = from_json_values(operation.declaration.result_type, done.result)
    except ValidationError as error:
        raise RefusedElsewhere(
            f"the answer of {node} to {operation.full_name} cannot be read; it may have another "
            f"version: {error.error_count()} faults"
        ) from None
    if not operation.declaration.acts:
        return result
    undo = UndoCall(action=done.undo.action, parameters=done.undo.parameters) if done.undo else None
    return Change(result=result, subject=done.subject, old=done.old, new=done.new, undo=undo)
