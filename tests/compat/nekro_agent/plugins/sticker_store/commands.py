from nekro_agent.api.core import get_qdrant_client
from nekro_agent.api.plugin import (
    CmdCtl,
    CommandExecutionContext,
    CommandPermission,
    CommandResponse,
)

from .base import load_store, plugin


@plugin.mount_command(name="sticker_stats", description="统计", permission=CommandPermission.USER)
async def stats(context: CommandExecutionContext) -> CommandResponse:
    store = await load_store()
    client = await get_qdrant_client()
    counted = await client.count(
        collection_name=plugin.get_vector_collection_name("stickers"), exact=True
    )
    return CmdCtl.success(f"{len(store.stickers)} / {counted.count}")
