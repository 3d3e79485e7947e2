"""封面工坊：做封面、缩略图、看图、处理文本文件"""

import base64
import random
import string
from io import BytesIO
from pathlib import Path
from typing import Any, Dict, List, Optional

import aiofiles
from PIL import Image, ImageDraw
from pydantic import Field

from nekro_agent.api import core, message
from nekro_agent.api.plugin import ConfigBase, NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx

# TODO: 字体以后再打包进来

plugin = NekroPlugin(
    name="封面工坊",
    module_name="cover_maker",
    description="生成封面图片、缩略图，统计文本文件",
    version="0.1.0",
    author="Aki",
    url="https://github.com/aki-lab/cover-maker",
)


@plugin.mount_config()
class CoverConfig(ConfigBase):
    """封面工坊配置"""

    WIDTH: int = Field(default=320, title="封面宽度")
    HEIGHT: int = Field(default=180, title="封面高度")
    JPEG_QUALITY: int = Field(default=85, title="JPEG 质量", ge=10, le=100)


config = plugin.get_config(CoverConfig)
logger = core.logger


def _draw(title: str, color: str) -> bytes:
    img = Image.new("RGB", (config.WIDTH, config.HEIGHT), color)
    d = ImageDraw.Draw(img)
    d.rectangle([8, 8, config.WIDTH - 8, config.HEIGHT - 8], outline="white", width=2)
    d.text((20, config.HEIGHT // 2), title.encode("ascii", "replace").decode(), fill="white")
    buf = BytesIO()
    img.save(buf, "PNG")
    return buf.getvalue()


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="制作封面", description="根据标题生成一张封面图"
)
async def make_cover(_ctx: AgentCtx, title: str, color: str = "#336699", send: bool = False) -> str:
    """生成封面图

    Args:
        title (str): 封面标题
        color (str): 背景色
        send (bool): 是否直接发送到当前聊天

    Returns:
        str: 图片在沙盒中的路径

    Example:
        path = make_cover("Summer", color="#aa3300")
        send_msg_file(_ck, path)
    """
    data = _draw(title, color)
    path = await _ctx.fs.mixed_forward_file(
        data, file_name=f"cover_{''.join(random.choices(string.ascii_lowercase, k=6))}.png"
    )
    if send:
        await _ctx.ms.send_image(_ctx.chat_key, path, _ctx)
    logger.debug(f"封面: {path}")
    return path


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, name="缩略图", description="把图片缩小")
async def thumbnail(_ctx: AgentCtx, image_path: str, width: int = 64) -> Dict[str, Any]:
    """生成缩略图

    Args:
        image_path (str): 沙盒内的图片路径
        width (int): 目标宽度

    Returns:
        Dict[str, Any]: {"path": 沙盒路径, "size": (宽, 高), "origin": (宽, 高)}
    """
    host: Path = _ctx.fs.get_file(image_path)
    with Image.open(host) as img:
        origin = img.size
        small = img.convert("RGB").resize((width, max(1, img.height * width // img.width)))
    out = plugin.get_plugin_data_dir() / "thumbs"
    out.mkdir(exist_ok=True, parents=True)
    file = out / f"{host.stem}_{width}.jpg"
    small.save(file, quality=config.JPEG_QUALITY)
    return {"path": await _ctx.fs.mixed_forward_file(file), "size": small.size, "origin": origin}


@plugin.mount_sandbox_method(
    SandboxMethodType.BEHAVIOR, name="发送图片到群", description="发送一张沙盒里的图片"
)
async def send_cover(_ctx: AgentCtx, image_path: str, caption: Optional[str] = None) -> str:
    """发送图片

    Args:
        image_path (str): 沙盒内的图片路径
        caption (Optional[str]): 附带文字
    """
    try:
        if caption:
            await message.send_text(_ctx.chat_key, caption, _ctx)
        await _ctx.send_image(image_path)
    except Exception as e:
        logger.exception("发送失败")
        return f"发送失败: {e}"
    return "图片已发送"


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="统计文本", description="统计文本文件的行数、字数"
)
async def count_text(_ctx: AgentCtx, file_path: str) -> Dict[str, int]:
    """统计文本文件

    Args:
        file_path (str): 沙盒内的文本文件路径，例如 "/app/shared/a.txt"
    """
    async with aiofiles.open(_ctx.fs.get_file(file_path), "r", encoding="utf-8") as f:
        text = await f.read()
    return {"lines": len(text.splitlines()), "chars": len(text), "words": len(text.split())}


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="导出清单", description="把若干行写成 txt 文件并发到群里"
)
async def export_lines(_ctx: AgentCtx, lines: List[str], file_name: str = "list.txt") -> str:
    """把若干行写成文本文件并发送

    Args:
        lines (List[str]): 每行内容
        file_name (str): 文件名

    Returns:
        str: 沙盒路径
    """
    target = _ctx.fs.shared_path / file_name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines), encoding="utf-8")
    await _ctx.send_file(str(target))
    return _ctx.fs.forward_file(target)


@plugin.mount_sandbox_method(
    SandboxMethodType.MULTIMODAL_AGENT, name="欣赏图片", description="让 AI 亲眼看一张图片"
)
async def appreciate(_ctx: AgentCtx, image_path: str) -> List[Dict[str, Any]]:
    """查看一张图片

    Args:
        image_path (str): 沙盒内的图片路径
    """
    raw = _ctx.fs.get_file(image_path).read_bytes()
    b64 = base64.b64encode(raw).decode()
    return [
        {"type": "text", "text": f"图片 {image_path} 共 {len(raw)} 字节:"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64}"}},
    ]


@plugin.mount_cleanup_method()
async def clean_up():
    """清理插件资源"""
    for f in (plugin.get_plugin_data_dir() / "thumbs").glob("*.jpg"):
        f.unlink()
