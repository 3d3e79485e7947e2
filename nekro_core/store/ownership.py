"""Names the owner of a partition of chats, so that only the current owner can write for these
chats.

Several processes can share a database. The chats are divided into partitions. Each partition has
one process at a time as its owner. When the owner changes, a number of the partition, its epoch,
grows. A process that was stopped and continues later may still believe that it is the owner. Its
writes carry the old epoch, so they are refused.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from nekro_core.chat import ChatKey

ChatScope = Callable[[ChatKey], bool]
"""Returns whether this process takes care of a chat, for example reports its timers."""


def every_chat(_: ChatKey) -> bool:
    """Return True: a process that runs alone takes care of all chats."""
    return True


@dataclass(frozen=True, slots=True, order=True)
class Ownership:
    """The right to write for the chats of a partition.

    Attributes:
        partition: The number of the partition.
        epoch: How often the partition has changed its owner.
        token: A secret, new for each epoch, which only processes with the database's password can
            read. It is compared if it is not empty. A gateway needs that: a thief who has
            only the password of workers for NATS could guess the epoch.
    """

    partition: int
    epoch: int
    token: str = field(default="", repr=False)


_CURRENT: ContextVar[Ownership | None] = ContextVar("ownership", default=None)


@contextmanager
def writing_as(ownership: Ownership | None) -> Iterator[None]:
    """Let all writes of the block carry this ownership. This includes the writes of tasks that are
    started in the block. If the epoch is not the partition's current epoch, such a write raises
    `nekro_core.store.errors.OwnershipLost` and stores nothing. With None, the writes carry no
    ownership and are not checked."""
    token = _CURRENT.set(ownership)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_ownership() -> Ownership | None:
    """Return the ownership that a write in this context carries; None if it carries none."""
    return _CURRENT.get()
