"""The module-level functions with which plugins for nekro-agent write to a chat.

Each function calls a method of `AgentCtx` for the chat of its first argument. ``ref_msg_id`` is the
platform's id of the message to reply to. ``record`` is accepted because plugins pass it. It has no
effect: sent messages are always stored in the chat's history.
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
    """Send a text to a chat. See `AgentCtx.send_text`.

    Args:
        chat_key: The text form of the chat's key.
        message: The text. ``[@id:10001@]`` in it is a mention.
        ctx: The context of the call.
        record: Has no effect.
        ref_msg_id: The platform's id of the message to reply to.

    Returns:
        A receipt for each platform call.

    Raises:
        ToolFailure: In the same cases as `AgentCtx.send_text`.
    """
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
    """Send a picture to a chat. See `AgentCtx.send_image`.

    Args:
        chat_key: The text form of the chat's key.
        image_path: A box path or URL (``str``), bytes, or the plugin's own file (`pathlib.Path`).
        ctx: The context of the call.
        record: Has no effect.
        ref_msg_id: The platform's id of the message to reply to.

    Returns:
        A receipt for each platform call.

    Raises:
        ToolFailure: In the same cases as `AgentCtx.send_image`.
    """
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
    """Send a file to a chat. See `AgentCtx.send_file`.

    Args:
        chat_key: The text form of the chat's key.
        file_path: The same as ``image_path`` of `send_image`.
        ctx: The context of the call.
        record: Has no effect.
        ref_msg_id: Has no effect, because a file cannot be a reply.

    Returns:
        A receipt for each platform call.

    Raises:
        ToolFailure: In the same cases as `AgentCtx.send_file`.
    """
    del record, ref_msg_id
    return await ctx.send_file(file_path, chat_key=chat_key)


async def push_system(
    chat_key: str,
    message: str,
    ctx: AgentCtx | None = None,
    trigger_agent: bool = False,
) -> None:
    """Add a system record to a chat's history. See `AgentCtx.push_system`.

    Args:
        chat_key: The text form of the chat's key.
        message: The text of the record.
        ctx: The context of the call; None makes a context for the chat.
        trigger_agent: Whether the agent answers the record.

    Raises:
        ToolFailure: In the same cases as `AgentCtx.push_system`.
    """
    if ctx is None:
        ctx = await AgentCtx.create_by_chat_key(chat_key)
    await ctx.push_system(message, trigger_agent, chat_key=chat_key)


async def download_from_url(url: str, ctx: AgentCtx) -> str:
    """Fetch a file into the box of the run.

    Args:
        url: An ``http(s)`` address, or a ``data:`` or ``base64://`` URL.
        ctx: The context of the call.

    Returns:
        The file's path in the box.

    Raises:
        ToolFailure: The file cannot be fetched or written. The text says why.
    """
    return await ctx.fs.mixed_forward_file(url)
