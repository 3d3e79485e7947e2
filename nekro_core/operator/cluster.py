"""Shows the processes of a cluster, and which worker owns a chat."""

from nekro_core.chat import ChatKey
from nekro_core.operator.actions import Area, query
from nekro_core.operator.elsewhere import ProcessView
from nekro_core.operator.roles import AccessRole, Actor


class ClusterArea(Area):
    """The processes of a cluster. A bot that is one process has none.

    Args:
        audit: The audit log.
    """

    name = "cluster"

    @property
    def several(self) -> bool:
        """Whether this process is one of a cluster."""
        return self.others is not None

    @property
    def node(self) -> str:
        """The name of this process; empty if the bot is one process."""
        return self.others.node if self.others is not None else ""

    @query(role=AccessRole.VIEWER)
    async def processes(self, actor: Actor) -> list[ProcessView]:  # noqa: ARG002
        """List the gateways and workers, with what they do now. A process that was killed is listed
        as not reachable for a day. The list is empty if the bot is one process."""
        return [] if self.others is None else await self.others.processes()

    @query(role=AccessRole.VIEWER)
    async def worker_of(self, actor: Actor, *, chat_key: ChatKey) -> str:  # noqa: ARG002
        """Get the name of the worker that owns a chat. It is empty if no worker owns the chat now,
        or if the bot is one process.

        Args:
            chat_key: The chat.
        """
        return "" if self.others is None else self.others.worker_of(chat_key)
