"""Defines how the operations of one process reach the other processes of a cluster.

The console runs in gateways, and the sessions and boxes of chats are in workers. So an operation
says in its decorator where it is carried out (`ProcessChoice`). If the bot is one process, every
operation is carried out there.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from nekro_core.chat import ChatKey
from nekro_core.tools.offer import ToolAnswer

if TYPE_CHECKING:
    from nekro_core.operator.actions import Declaration
    from nekro_core.operator.roles import Actor


class ProcessChoice(StrEnum):
    """Where an operation is carried out."""

    HERE = "here"
    """In the process that was asked. Other processes cannot ask for it."""
    OWNER = "owner"
    """In the process that owns the chat; see `actions.Area.chat_of`."""
    ANY = "any"
    """In the process that was asked. Other processes can ask for it too."""


class DeclaredOperation(Protocol):
    """A query or an action (`actions.BoundQuery`, `actions.BoundAction`)."""

    @property
    def full_name(self) -> str:
        """Its name, for example ``chats.stop``."""

    @property
    def declaration(self) -> "Declaration":
        """The arguments of its decorator, and what is read from its signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessView:
    """A process of a cluster.

    Attributes:
        node: Its name.
        role: ``gateway`` or ``worker``.
        here: Whether it is the process that was asked.
        reachable: Whether it answers.
        problem: Why it does not answer, or why it is not ready; empty if it is ready.
        version: Its version of nekro-core.
        started: When it started, in seconds since 1970.
        partitions: The number of partitions of chats that it owns.
        turns_running: Turns that run now.
        turns_waiting: Turns that wait until others end.
        chats: Chats with a session.
        boxes: Boxes of chats that run now.
        memory: The memory of the process in bytes, without that of its boxes; 0 if it is not known.
        accounts: The connected accounts, each as adapter and account.
    """

    node: str
    role: str
    here: bool
    reachable: bool
    problem: str
    version: str
    started: float
    partitions: int = 0
    turns_running: int = 0
    turns_waiting: int = 0
    chats: int = 0
    boxes: int = 0
    memory: int = 0
    accounts: Sequence[str] = ()


class OtherProcesses(Protocol):
    """The other processes of a cluster, as a gateway sees them
    (`nekro_core.app.cluster.other_processes.ClusterProcesses`)."""

    @property
    def node(self) -> str:
        """The name of this process."""

    def worker_of(self, chat_key: ChatKey) -> str:
        """Return the name of the worker that owns a chat; empty if none does now. The answer can be
        a second old."""

    def working(self, chat_key: ChatKey) -> bool:
        """Return whether a turn of the chat runs. The answer can be a second old."""

    def all_working(self) -> Collection[ChatKey]:
        """Return the chats in which a turn runs."""

    async def at_owner(
        self,
        operation: DeclaredOperation,
        actor: "Actor",
        chat_key: ChatKey,
        parameters: Mapping[str, Any],
    ) -> Any:
        """Have an operation carried out by the worker that owns a chat. Returns what the operation
        returns. Raises `ProcessAway`, the errors `NotAllowed`, `InvalidParameters`, `NoSuchItem`
        and `ChangedMeanwhile` of the operation, and `RefusedElsewhere` in place of its other
        errors."""

    async def at_node(
        self, node: str, operation: DeclaredOperation, actor: "Actor", parameters: Mapping[str, Any]
    ) -> Any:
        """Have an operation carried out by a process. Returns what the operation returns. Raises
        the errors of `at_owner`, and `NoSuchItem` also if there is no such process."""

    async def at_workers(
        self, operation: DeclaredOperation, actor: "Actor", parameters: Mapping[str, Any]
    ) -> list[Any]:
        """Have a query carried out by all workers that answer. Returns their answers. Raises
        `StoreError`."""

    async def processes(self) -> list[ProcessView]:
        """Return all processes, gateways first. Raises `StoreError`."""

    async def call_tool(
        self, chat_key: ChatKey | None, name: str, arguments: Mapping[str, Any]
    ) -> ToolAnswer:
        """Call a tool at the worker that owns the chat. Without a chat, it is always the same
        worker as long as the partitions do not move. Raises `ProcessAway` and
        `RefusedElsewhere`."""

    async def stop(self, chat_key: ChatKey) -> bool:
        """Stop the turn that runs in a chat. Returns False if none runs. Raises `ProcessAway`."""
