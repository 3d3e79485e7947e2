"""Makes its own Qdrant client from the configured address. Authors who know Qdrant do this."""

from nekro_agent.api.core import get_qdrant_client, get_qdrant_config
from nekro_agent.api.plugin import NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx
from qdrant_client import AsyncQdrantClient, QdrantClient
from qdrant_client.models import Distance, VectorParams

plugin = NekroPlugin("Own client", "own_client", "Remembers pictures.", "0.1.0", "ann", "")
NAME = plugin.get_vector_collection_name("pictures")


def connect() -> AsyncQdrantClient:
    config = get_qdrant_config()
    if not config.url:
        raise RuntimeError("Qdrant is not configured")
    return AsyncQdrantClient(url=config.url, api_key=config.api_key or None, timeout=config.timeout)


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "remember_picture", "记住图片")
async def remember_picture(_ctx: AgentCtx, number: int, name: str) -> int:
    """记住图片

    Args:
        number (int): 编号
        name (str): 名字
    """
    client = connect()
    if not await client.collection_exists(NAME):
        await client.create_collection(NAME, VectorParams(size=2, distance=Distance.COSINE))
    await client.upsert(
        collection_name=NAME,
        points=[{"id": number, "vector": [1.0, float(number)], "payload": {"name": name}}],
    )
    await client.close()
    return (await (await get_qdrant_client()).count(NAME)).count


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "nearest_picture", "找图片")
async def nearest_picture(_ctx: AgentCtx, number: int) -> str:
    """找图片

    Args:
        number (int): 编号
    """
    config = get_qdrant_config()
    client = QdrantClient(url=config.url, api_key=config.api_key)
    (found,) = client.query_points(NAME, query=[1.0, float(number)], limit=1).points
    client.close()
    return found.payload["name"]
