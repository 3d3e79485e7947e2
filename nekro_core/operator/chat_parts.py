"""Defines the parts of the running bot that the operations of chats use."""

from typing import Protocol

from nekro_core.chat import ChatKey, Receipt, Record, Segments
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.policy import ChatState
from nekro_core.tools.names import ToolSet


class ChatControl(Protocol):
    """The running turns (`nekro_core.agent.session.sessions.Sessions`)."""

    def working(self, chat_key: ChatKey) -> bool:
        """Return True if a turn of the chat runs."""

    async def stop(self, chat_key: ChatKey) -> bool:
        """Stop the chat's running turn. Returns False if no turn runs."""

    def on_stop(self, record: Record) -> None:
        """Stop the chat's running turn. If no turn runs, drop the questions before ``record``, the
        message that asked for the stop. Tell the chat what was done."""

    async def reset(self, chat_key: ChatKey, before: int = 0) -> None:
        """Begin a new conversation, and drop the waiting questions: those before the record
        ``before``, or all if it is 0."""

    async def follow_state(self, chat_key: ChatKey, was: ChatState) -> None:
        """Act on a changed state of a chat, for example stop its turn. ``was`` is the state
        before."""


class MessageSending(Protocol):
    """Sends a message (`nekro_core.delivery.outbound.outbox.Outbox`)."""

    async def send(self, chat_key: ChatKey, segments: Segments) -> tuple[Receipt, ...]:
        """Send a message. Returns the outcome of each platform call."""


class ChatTools(Protocol):
    """The tools of chats (`nekro_core.plugins.host.active_plugins.ActivePlugins`)."""

    def context_for(self, chat_key: ChatKey) -> AgentCtx:
        """Make a context in a chat."""

    async def all_tools_in(self, ctx: AgentCtx) -> ToolSet:
        """Get all tools of a chat, including tools that are switched off in the chat."""
