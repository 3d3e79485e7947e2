"""Copies pictures from the box to the host and back, in every way that plugins use."""

import asyncio
import tempfile
from io import BytesIO
from pathlib import Path
from typing import List

import aiofiles
from PIL import Image

from nekro_agent.api import message
from nekro_agent.api.core import logger
from nekro_agent.api.plugin import NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.tools.common_util import calculate_file_md5, download_file_from_bytes
from nekro_agent.tools.path_convertor import convert_to_host_path, is_url_path

plugin = NekroPlugin("Pictures", "picture_lab", "Pictures", "1.0", "painter", "")


def _png(color: str) -> bytes:
    out = BytesIO()
    Image.new("RGB", (8, 6), color).save(out, format="PNG")
    return out.getvalue()


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "make_picture", "画图")
async def make_picture(_ctx: AgentCtx, color: str) -> str:
    """Paint a picture.

    Args:
        color (str): The color.

    Returns:
        str: the path of it in the sandbox
    """
    return await _ctx.fs.mixed_forward_file(_png(color), file_name=f"{color}.png")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "grey", "灰度")
async def grey(_ctx: AgentCtx, path: str) -> str:
    """Make a picture grey.

    Args:
        path (str): A picture in the sandbox.
    """
    host_path = _ctx.fs.get_file(path)
    if not host_path.exists():
        raise FileNotFoundError(f"{path} not found")
    picture = await asyncio.to_thread(lambda: Image.open(host_path).convert("L"))
    out = _ctx.fs.shared_path / f"grey_{Path(path).stem}.png"
    picture.save(out)
    return _ctx.fs.forward_file(out)


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "leave_behind", "留下文件")
async def leave_behind(_ctx: AgentCtx, name: str) -> str:
    """Write a file into the shared folder and tell where it is.

    Args:
        name (str): Its name.
    """
    (_ctx.fs.shared_path / Path(name).name).write_text("left behind", encoding="utf-8")
    return f"/app/shared/{Path(name).name}"


@plugin.mount_sandbox_method(SandboxMethodType.BEHAVIOR, "send_collage", "发送拼图")
async def send_collage(_ctx: AgentCtx, chat_key: str, paths: List[str]) -> str:
    """Send pictures side by side.

    Args:
        chat_key (str): Where.
        paths (List[str]): Pictures in the sandbox.
    """
    pictures = []
    for path in paths:
        if is_url_path(path):
            raise ValueError("no addresses, please")
        host = convert_to_host_path(Path(path), chat_key=chat_key, container_key=_ctx.container_key)
        async with aiofiles.open(host, "rb") as file:
            pictures.append(Image.open(BytesIO(await file.read())))
    whole = Image.new("RGB", (sum(each.width for each in pictures), pictures[0].height))
    at = 0
    for each in pictures:
        whole.paste(each.convert("RGB"), (at, 0))
        at += each.width
    with tempfile.NamedTemporaryFile(suffix=".png", delete=False) as file:
        whole.save(file, format="PNG")
    await message.send_image(chat_key, file.name, _ctx)
    await _ctx.ms.send_text(chat_key, f"[@id:{_ctx.from_user_id}@] {len(paths)} pictures", _ctx)
    digest = await calculate_file_md5(file.name)
    Path(file.name).unlink()
    logger.info(f"collage {digest}")
    return f"collage of {len(paths)} sent"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "keep_upload", "保存")
async def keep_upload(_ctx: AgentCtx) -> str:
    """Keep a picture among the uploads and send it."""
    path, name = await download_file_from_bytes(
        _png("blue"), file_name="", use_suffix=".png", from_chat_key=_ctx.chat_key
    )
    await _ctx.send_image(path)
    return _ctx.fs.forward_file(path)
