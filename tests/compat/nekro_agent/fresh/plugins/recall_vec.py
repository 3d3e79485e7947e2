import hashlib
import uuid
from typing import List

from nekro_agent.api import core
from nekro_agent.api.core import get_qdrant_client, get_qdrant_config, logger
from nekro_agent.api.plugin import ConfigBase, NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.services.agent.openai import gen_openai_embeddings
from pydantic import Field
from qdrant_client import AsyncQdrantClient
from qdrant_client import models as qmodels
from qdrant_client.models import (
    Distance,
    FieldCondition,
    Filter,
    MatchValue,
    PointStruct,
    VectorParams,
)

plugin = NekroPlugin(
    name="Recall",
    module_name="recall_vec",
    description="long memory",
    version="0.1.0",
    author="vec",
    url="",
)


@plugin.mount_config()
class RecallConfig(ConfigBase):
    DIM: int = Field(default=8)
    EMBED_GROUP: str = Field(default="text-embedding")
    MIN_SCORE: float = Field(default=0.1)


cfg = plugin.get_config(RecallConfig)


async def embed(text: str) -> List[float]:
    group = core.config.MODEL_GROUPS.get(cfg.EMBED_GROUP)
    if group is None:
        digest = hashlib.sha256(text.split()[0].lower().encode()).digest()
        return [b / 255 for b in digest[: cfg.DIM]]
    return await gen_openai_embeddings(
        model=group.CHAT_MODEL,
        input=text,
        api_key=group.API_KEY,
        base_url=group.BASE_URL,
        dimensions=cfg.DIM,
    )


@plugin.mount_init_method()
async def init():
    client: AsyncQdrantClient = await get_qdrant_client()
    name = plugin.get_vector_collection_name("notes")
    collections = await client.get_collections()
    if name not in [c.name for c in collections.collections]:
        await client.create_collection(
            collection_name=name,
            vectors_config=VectorParams(size=cfg.DIM, distance=Distance.COSINE),
        )
        logger.info(f"created {name}")


@plugin.mount_sandbox_method(SandboxMethodType.BEHAVIOR, "remember", "remember")
async def remember(_ctx: AgentCtx, text: str, kind: str = "note") -> str:
    """Remember a text.

    Args:
        text (str): what
        kind (str): kind
    """
    client = await core.get_qdrant_client()
    pid = str(uuid.uuid5(uuid.NAMESPACE_URL, text))
    await client.upsert(
        collection_name=plugin.get_vector_collection_name("notes"),
        points=[
            PointStruct(
                id=pid,
                vector=await embed(text),
                payload={"chat_key": _ctx.chat_key, "text": text, "kind": kind},
            )
        ],
        wait=True,
    )
    return f"remembered {text}"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "recall", "recall")
async def recall(_ctx: AgentCtx, query: str, kind: str = "note", limit: int = 3) -> List[str]:
    """Recall texts.

    Args:
        query (str): what
        kind (str): kind
        limit (int): how many
    """
    client = await get_qdrant_client()
    name = plugin.get_vector_collection_name("notes")
    flt = Filter(
        must=[
            FieldCondition(key="chat_key", match=MatchValue(value=_ctx.chat_key)),
            FieldCondition(key="kind", match=MatchValue(value=kind)),
        ]
    )
    hits = await client.search(
        collection_name=name,
        query_vector=await embed(query),
        query_filter=flt,
        limit=limit,
        score_threshold=cfg.MIN_SCORE,
        with_payload=True,
    )
    points = (
        await client.query_points(
            collection_name=name, query=await embed(query), query_filter=flt, limit=limit
        )
    ).points
    assert [h.id for h in hits] == [p.id for p in points]
    return [h.payload["text"] for h in hits]


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "forget_all", "forget")
async def forget_all(_ctx: AgentCtx) -> int:
    """Forget everything of this chat."""
    client = await get_qdrant_client()
    name = plugin.get_vector_collection_name("notes")
    mine = qmodels.Filter(
        must=[qmodels.FieldCondition(key="chat_key", match=qmodels.MatchValue(value=_ctx.chat_key))]
    )
    records, _next = await client.scroll(
        collection_name=name, scroll_filter=mine, limit=100, with_payload=True, with_vectors=False
    )
    await client.delete(collection_name=name, points_selector=qmodels.FilterSelector(filter=mine))
    left = await client.count(collection_name=name, count_filter=mine, exact=True)
    assert left.count == 0
    return len(records)
