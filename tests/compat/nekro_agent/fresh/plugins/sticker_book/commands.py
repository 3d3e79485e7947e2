from typing import Annotated

from nekro_agent.api.plugin import (
    Arg,
    CmdCtl,
    CommandExecutionContext,
    CommandPermission,
    CommandResponse,
)

from .plugin import plugin

book = plugin.mount_command_group(
    name="book", description="贴纸本", permission=CommandPermission.PUBLIC
)


@book.command(name="list", description="列出贴纸", aliases=["books"])
async def book_list(
    context: CommandExecutionContext, tag: Annotated[str, Arg("标签", positional=True)] = ""
) -> CommandResponse:
    from .methods import db

    rows = [s for s in await db.all(context.chat_key) if not tag or s.tag == tag]
    if not rows:
        return CmdCtl.failed("no stickers")
    return CmdCtl.success("\n".join(f"#{s.id} {s.tag}" for s in rows), data={"count": len(rows)})
