import base64
import shutil
from pathlib import Path
from typing import Any, Dict, List

from PIL import Image

from nekro_agent.api.plugin import SandboxMethodType
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.services.agent.creator import ContentSegment, OpenAIChatMessage

from .base import FOLDER, find, index, load_store, plugin, save_store


@plugin.mount_prompt_inject_method(name="sticker_prompt")
async def sticker_prompt(_ctx: AgentCtx) -> str:
    """表情包提示"""
    store = await load_store()
    return f"You keep {len(store.stickers)} stickers."


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, name="收集表情包", description="收集")
async def collect_sticker(
    _ctx: AgentCtx, source_path: str, description: str, tags: List[str]
) -> int:
    """收集表情包

    Args:
        source_path (str): 沙盒中的图片
        description (str): 描述
        tags (List[str]): 标签

    Returns:
        int: 编号
    """
    host_path = _ctx.fs.get_file(source_path)
    if not host_path.exists():
        raise FileNotFoundError(source_path)
    with Image.open(host_path) as image:
        image.verify()
    store = await load_store()
    sticker = store.add(description, tags, "")
    target = FOLDER / f"{sticker.id}{host_path.suffix}"
    shutil.copy(host_path, target)
    sticker.path = str(target)
    await save_store(store)
    await index(sticker)
    return sticker.id


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, name="获取表情包", description="路径")
async def get_sticker_path(_ctx: AgentCtx, sticker_id: int) -> str:
    """获取表情包在沙盒中的路径

    Args:
        sticker_id (int): 编号
    """
    store = await load_store()
    if sticker_id not in store.stickers:
        raise ValueError(f"no sticker {sticker_id}")
    return await _ctx.fs.mixed_forward_file(store.stickers[sticker_id].path)


@plugin.mount_sandbox_method(
    SandboxMethodType.MULTIMODAL_AGENT, name="搜索表情包", description="搜索"
)
async def search_sticker(_ctx: AgentCtx, query: str, tag: str = "") -> List[Dict[str, Any]]:
    """搜索表情包

    Args:
        query (str): 描述
        tag (str): 标签
    """
    store = await load_store()
    message = OpenAIChatMessage.create_empty("user")
    for number in await find(query, tag):
        sticker = store.stickers[number]
        message.add(ContentSegment.text_content(f"#{number}: {sticker.description}"))
        data = base64.b64encode(Path(sticker.path).read_bytes()).decode()
        message.add(ContentSegment.image_content(f"data:image/png;base64,{data}"))
    return message.to_dict()["content"]


@plugin.mount_sandbox_method(SandboxMethodType.BEHAVIOR, name="发送表情包", description="发送")
async def send_sticker(_ctx: AgentCtx, sticker_id: int) -> str:
    """发送表情包

    Args:
        sticker_id (int): 编号
    """
    store = await load_store()
    await _ctx.send_image(store.stickers[sticker_id].path)
    return f"sent sticker {sticker_id}"
