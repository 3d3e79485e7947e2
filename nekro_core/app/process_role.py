"""Says what a process does of the bot's work.

`nekro run` does all of it in one process. In a cluster, gateways hold the platforms' accounts and
the pages, and workers answer; see docs/cluster.md.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fastapi import FastAPI

from nekro_core.store.ownership import ChatScope, every_chat

if TYPE_CHECKING:
    from nekro_core.app.app import App
    from nekro_core.cluster.objects import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRole:
    """The part of the bot's work that a process does. `App.open` builds what this part needs.

    Attributes:
        process: The name under which the database stores what belongs to this process alone.
        chats: Returns whether this process takes care of a chat now.
        runs_code: Whether this process makes boxes.
        own_accounts: Whether the documents that say which accounts are connected are those of this
            process alone; see `nekro_core.app.documents.OF_ACCOUNTS`.
        leads: Returns whether this process now does the work that belongs to no chat and is done
            once for the whole bot, such as backups by a schedule.
        objects: The object store of the cluster; None if the process has the bot for itself.
    """

    process: str = "bot"
    chats: ChatScope = every_chat
    runs_code: bool = True
    own_accounts: bool = False
    leads: Callable[[], bool] = lambda: True
    objects: "ObjectStore | None" = None

    @property
    def alone(self) -> bool:
        """Whether the process has the bot for itself."""
        return self.objects is None


WHOLE = ProcessRole()
"""The process does everything."""


class ProcessPart(Protocol):
    """One of the kinds of processes: the whole bot, a gateway or a worker."""

    @property
    def role(self) -> ProcessRole:
        """The part of the bot's work that this process does."""

    @property
    def connects(self) -> bool:
        """Whether the process connects platforms and serves the pages."""

    @property
    def end_s(self) -> float:
        """Seconds after SIGTERM at which all tasks that have not ended are cancelled."""

    def work(self, app: "App") -> AbstractAsyncContextManager[None]:
        """Do the process's work until the block ends. The block begins when the process is
        ready."""

    def install(self, app: "App", server: FastAPI) -> None:
        """Add the process's routes to the web server."""
