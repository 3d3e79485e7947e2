"""Old-style file handling, before ctx.fs existed"""

import base64
from pathlib import Path
from typing import Dict, List, Union

from nekro_agent.api.message import ChatMessage, download_from_url, send_file, send_image
from nekro_agent.api.schemas import AgentCtx, AgentMessageSegment, AgentMessageSegmentType
from nekro_agent.core import config, logger
from nekro_agent.schemas.chat_message import (
    ChatMessageSegment,
    ChatMessageSegmentAt,
    ChatMessageSegmentFile,
    ChatMessageSegmentImage,
    ChatMessageSegmentType,
)
from nekro_agent.services.plugin.base import ConfigBase, NekroPlugin, SandboxMethodType
from nekro_agent.tools.common_util import (
    calculate_file_md5,
    calculate_text_similarity,
    download_file_from_bytes,
    limited_text_output,
)
from nekro_agent.tools.path_convertor import (
    convert_filename_to_sandbox_upload_path,
    convert_to_host_path,
    is_url_path,
)

plugin = NekroPlugin(
    name="OldFiles",
    module_name="old_files",
    description="zip",
    version="0.1",
    author="grandpa",
    url="",
)

seen: List[str] = []


@plugin.mount_on_user_message()
async def seen_message(_ctx: AgentCtx, message: ChatMessage):
    for seg in message.content_data:
        if seg.type == ChatMessageSegmentType.TEXT.value:
            seen.append(f"text:{seg.text}")
        elif isinstance(seg, ChatMessageSegmentAt):
            seen.append(f"at:{seg.target_platform_userid}")
    if "spam" in message.content_text:
        return 2
    return None


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "digest_file", "md5")
async def digest_file(_ctx: AgentCtx, path: str) -> Dict[str, Union[str, int]]:
    """Digest of a file

    Args:
        path (str): path
    """
    if is_url_path(path):
        path = await download_from_url(path, _ctx)
    host = convert_to_host_path(
        Path(path), chat_key=_ctx.chat_key, container_key=_ctx.container_key
    )
    return {
        "md5": await calculate_file_md5(host),
        "size": host.stat().st_size,
        "host_is_path": int(isinstance(host, Path)),
    }


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "make_note_file", "file")
async def make_note_file(_ctx: AgentCtx, text: str) -> str:
    """Make a file of a text, send it, and give its path.

    Args:
        text (str): text
    """
    path, name = await download_file_from_bytes(
        text.encode(), use_suffix=".txt", from_chat_key=_ctx.chat_key
    )
    box = str(convert_filename_to_sandbox_upload_path(name))
    await send_file(_ctx.chat_key, box, _ctx)
    logger.info(limited_text_output(text * 10, 20))
    return box


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "similar", "similar")
async def similar(_ctx: AgentCtx, a: str, b: str) -> float:
    """Similarity"""
    return round(calculate_text_similarity(a, b), 2)
