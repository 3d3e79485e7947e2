"""Offers ``message_service``, with which plugins for nekro-agent write to a chat, inside and
outside of tool calls."""

from typing import Any

from nekro_core.chat import ChatKey
from nekro_core.chat.mentions import text_segments
from nekro_core.compat.nekro_agent.agent_segments import MessageContent, pieces_of
from nekro_core.compat.nekro_agent.host import current_host
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.tools.outcome import ToolFailure

__all__ = ["MessageService", "message_service"]


class MessageService:
    """Writes to the chats of the bot whose plugin is running. The caller gives the chat by its key
    (``chat_key``) or by its row (``db_chat_channel``)."""

    async def push_system_message(
        self,
        chat_key: str = "",
        agent_messages: MessageContent = "",
        trigger_agent: bool = False,
        db_chat_channel: Any = None,
        **_: Any,
    ) -> None:
        """Add a system record to the chat's history. With ``trigger_agent``, the agent answers
        it."""
        ctx = await _context(chat_key, db_chat_channel)
        text = "".join(piece.format() for piece in pieces_of(agent_messages))
        await ctx.push_system(text, trigger_agent)

    async def push_bot_message(
        self,
        chat_key: str = "",
        agent_messages: MessageContent = "",
        db_chat_channel: Any = None,
        **_: Any,
    ) -> None:
        """Only check that the chat key is valid. Nothing is added, because the history already has
        everything that the bot sends."""
        del agent_messages
        await _context(chat_key, db_chat_channel)

    async def send_agent_message(
        self,
        chat_key: str = "",
        messages: MessageContent = "",
        ctx: AgentCtx | None = None,
        **_: Any,
    ) -> None:
        """Send segments to the chat, each as a separate message. Raises `ToolFailure`."""
        ctx = ctx or await _context(chat_key, None)
        for piece in pieces_of(messages):
            match piece.type:
                case "text":
                    await ctx.send(text_segments(piece.content), chat_key=chat_key or None)
                case "image":
                    await ctx.send_image(piece.content, chat_key=chat_key or None)
                case _:
                    await ctx.send_file(piece.content, chat_key=chat_key or None)

    async def push_human_message(self, message: Any, **_: Any) -> None:
        """Raise `ToolFailure`, because messages of people can only come from a platform."""
        del message
        raise ToolFailure(
            "a plugin cannot add a message of a person; for the plugin's own text use "
            "push_system_message(..., trigger_agent=True)"
        )

    async def schedule_agent_task(
        self, chat_key: str = "", message: Any = None, ctx: AgentCtx | None = None, **_: Any
    ) -> None:
        """Wake the chat's agent and ask it to read the last messages."""
        ctx = ctx or await _context(chat_key or getattr(message, "chat_key", ""), None)
        await ctx.push_system("A plugin asks you to look at what was said last.", True)


async def _context(chat_key: str, db_chat_channel: Any) -> AgentCtx:
    key = chat_key or getattr(db_chat_channel, "chat_key", "")
    ChatKey.parse(key)
    current_host()
    return await AgentCtx.create_by_chat_key(key)


message_service = MessageService()
