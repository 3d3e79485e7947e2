"""Sending as plain functions: the form in which existing plugins write to a chat.

Each is a method of `AgentCtx` with the chat's key in front. ``ref_msg_id`` is the platform's id of
the message that is answered. What is sent is always in the chat's record: ``record`` is taken
because existing plugins give it, and changes nothing.
"""

from pathlib import Path

from nekro_core.chat import Receipt
from nekro_core.compat.nekro_agent.legacy_message import LegacyChatMessage
from nekro_core.plugins.authoring.context import AgentCtx

__all__ = [
    "LegacyChatMessage",
    "download_from_url",
    "push_system",
    "send_file",
    "send_image",
    "send_text",
]


async def send_text(
    chat_key: str,
    message: str,
    ctx: AgentCtx,
    *,
    record: bool = True,
    ref_msg_id: str | None = None,
) -> tuple[Receipt, ...]:
    """See `AgentCtx.send_text`."""
    del record
    return await ctx.send_text(message, chat_key=chat_key, reply_to=ref_msg_id or "")


async def send_image(
    chat_key: str,
    image_path: str | bytes | Path,
    ctx: AgentCtx,
    *,
    record: bool = True,
    ref_msg_id: str | None = None,
) -> tuple[Receipt, ...]:
    """See `AgentCtx.send_image`."""
    del record
    return await ctx.send_image(image_path, chat_key=chat_key, reply_to=ref_msg_id or "")


async def send_file(
    chat_key: str,
    file_path: str | bytes | Path,
    ctx: AgentCtx,
    *,
    record: bool = True,
    ref_msg_id: str | None = None,
) -> tuple[Receipt, ...]:
    """See `AgentCtx.send_file`; a file cannot answer a message."""
    del record, ref_msg_id
    return await ctx.send_file(file_path, chat_key=chat_key)


async def push_system(
    chat_key: str,
    message: str,
    ctx: AgentCtx | None = None,
    trigger_agent: bool = False,
) -> None:
    """See `AgentCtx.push_system`."""
    if ctx is None:
        ctx = await AgentCtx.create_by_chat_key(chat_key)
    await ctx.push_system(message, trigger_agent, chat_key=chat_key)


async def download_from_url(url: str, ctx: AgentCtx) -> str:
    """Fetch a file into the box of the run; its path there. Raises `ToolFailure`."""
    return await ctx.fs.mixed_forward_file(url)
