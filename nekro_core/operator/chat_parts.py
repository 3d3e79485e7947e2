"""Defines what the operations of chats use of the running bot."""

from typing import Protocol

from nekro_core.chat import ChatKey, Receipt, Record, Segments
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.policy import ChatState
from nekro_core.tools.names import ToolSet


class ChatControl(Protocol):
    """The running turns (`nekro_core.agent.session.sessions.Sessions`)."""

    def working(self, chat_key: ChatKey) -> bool:
        """Whether a turn of the chat runs."""

    async def stop(self, chat_key: ChatKey) -> bool:
        """Stop the chat's running turn. Returns False if no turn runs."""

    def on_stop(self, record: Record) -> None:
        """Stop the chat's running turn, or drop the questions before a message, and tell the
        chat."""

    async def reset(self, chat_key: ChatKey, before: int = 0) -> None:
        """Begin a new conversation, and drop the waiting questions: all, or those before a
        message."""

    async def follow_state(self, chat_key: ChatKey, was: ChatState) -> None:
        """Act on a change of what the bot does in a chat."""


class MessageSending(Protocol):
    """Sends a message (`nekro_core.delivery.outbound.outbox.Outbox`)."""

    async def send(self, chat_key: ChatKey, segments: Segments) -> tuple[Receipt, ...]:
        """Send a message. Returns the outcome of each platform call."""


class ChatTools(Protocol):
    """The tools of chats (`nekro_core.plugins.host.active_plugins.ActivePlugins`)."""

    def context_for(self, chat_key: ChatKey) -> AgentCtx:
        """Make a context in a chat."""

    async def all_tools_in(self, ctx: AgentCtx) -> ToolSet:
        """Get the tools of a chat, with those that are switched off there."""
