import shutil
import uuid
from pathlib import Path
from typing import List, Optional

from nekro_agent.api.core import logger
from nekro_agent.api.plugin import SandboxMethodType
from nekro_agent.api.schemas import AgentCtx

from .core import sheet
from .core.storage import StickerDB
from .plugin import config, plugin

db = StickerDB(plugin.get_plugin_data_dir() / "stickers.db")
STORE = plugin.get_plugin_data_dir() / "files"

__all__ = ["add_sticker", "init", "show_book"]


@plugin.mount_init_method()
async def init():
    STORE.mkdir(parents=True, exist_ok=True)
    await db.open()
    logger.info("sticker db ready")


@plugin.mount_cleanup_method()
async def cleanup():
    await db.close()


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, "add_sticker", description="Add a picture of the box to the book"
)
async def add_sticker(_ctx: AgentCtx, file_path: str, tag: Optional[str] = None) -> int:
    """Add a sticker to the book.

    Args:
        file_path (str): Path of the picture in the sandbox, e.g. "/app/shared/cat.png".
        tag (Optional[str]): A word for it.

    Returns:
        int: number of the sticker
    """
    host = _ctx.fs.get_file(file_path)
    if not host.exists():
        raise FileNotFoundError(f"File not found: {file_path}")
    have = await db.all(_ctx.chat_key)
    if len(have) >= config.MAX_PER_CHAT:
        raise ValueError("the book is full")
    target = STORE / f"{uuid.uuid4().hex}{Path(host).suffix}"
    shutil.copy(host, target)
    return await db.add(_ctx.chat_key, tag or "none", str(target), _ctx.from_user_id)


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "show_book", description="Send the book")
async def show_book(_ctx: AgentCtx) -> str:
    """Send a sheet of all stickers of this chat, and give its path in the box.

    Returns:
        str: path
    """
    stickers = await db.all(_ctx.from_chat_key)
    data = sheet([Path(s.file) for s in stickers])
    sandbox_path = await _ctx.fs.mixed_forward_file(data, file_name="book.png")
    await _ctx.send_image(sandbox_path)
    return sandbox_path


@plugin.mount_sandbox_method(
    SandboxMethodType.MULTIMODAL_AGENT, "look_at_book", description="Look at the book"
)
async def look_at_book(_ctx: AgentCtx) -> List[dict]:
    """Look at all stickers."""
    import base64

    stickers = await db.all(_ctx.chat_key)
    data = base64.b64encode(sheet([Path(s.file) for s in stickers])).decode()
    return [
        {
            "type": "text",
            "text": "tags: " + ", ".join(f"{s.id}={s.tag} by {s.added_by}" for s in stickers),
        },
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
    ]
