"""菜谱记忆

把群友说过的菜谱存进向量库，之后用一句话就能找回来。
需要在系统设置里配置一个 embedding 模型组。
"""

import uuid
from typing import Any, Dict, List

from pydantic import Field
from qdrant_client import models as qdrant_models

from nekro_agent.api import core
from nekro_agent.api.core import ModelConfigGroup, get_qdrant_client, logger
from nekro_agent.api.core import config as core_config
from nekro_agent.api.plugin import ConfigBase, ExtraField, NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.services.agent.openai import gen_openai_embeddings

plugin = NekroPlugin(
    name="菜谱记忆",
    module_name="recipe_memory",
    description="基于向量检索的菜谱收藏夹",
    version="0.2.0",
    author="chef_zhang",
    url="https://github.com/chef-zhang/recipe-memory",
)


@plugin.mount_config()
class RecipeConfig(ConfigBase):
    """菜谱记忆配置"""

    EMBEDDING_MODEL: str = Field(
        default="text-embedding",
        title="嵌入模型组",
        json_schema_extra=ExtraField(
            ref_model_groups=True, required=True, model_type="embedding"
        ).model_dump(),
    )
    EMBEDDING_DIMENSION: int = Field(default=1024, title="嵌入维度")
    MIN_SCORE: float = Field(default=0.0, title="最低匹配度")


recipe_config: RecipeConfig = plugin.get_config(RecipeConfig)


async def _embed(text: str) -> List[float]:
    group: ModelConfigGroup = core_config.get_model_group_info(recipe_config.EMBEDDING_MODEL)
    vector = await gen_openai_embeddings(
        model=group.CHAT_MODEL,
        input=text,
        dimensions=recipe_config.EMBEDDING_DIMENSION,
        api_key=group.API_KEY,
        base_url=group.BASE_URL,
    )
    if len(vector) != recipe_config.EMBEDDING_DIMENSION:
        raise ValueError(
            f"嵌入维度不匹配: 期望 {recipe_config.EMBEDDING_DIMENSION}，实际 {len(vector)}"
        )
    return vector


@plugin.mount_init_method()
async def init_collection():
    client = await get_qdrant_client()
    if client is None:
        logger.warning("没有可用的 Qdrant，菜谱记忆不可用")
        return
    name = plugin.get_vector_collection_name()
    collections = await client.get_collections()
    if name not in [c.name for c in collections.collections]:
        await client.create_collection(
            collection_name=name,
            vectors_config=qdrant_models.VectorParams(
                size=recipe_config.EMBEDDING_DIMENSION,
                distance=qdrant_models.Distance.COSINE,
            ),
        )
        logger.success(f"已创建集合 {name}")


def _chat_filter(chat_key: str, **more: str) -> qdrant_models.Filter:
    must: List[Any] = [
        qdrant_models.FieldCondition(
            key="chat_key", match=qdrant_models.MatchValue(value=chat_key)
        ),
    ]
    for k, v in more.items():
        must.append(qdrant_models.FieldCondition(key=k, match=qdrant_models.MatchValue(value=v)))
    return qdrant_models.Filter(must=must)


@plugin.mount_sandbox_method(
    SandboxMethodType.BEHAVIOR, name="收藏菜谱", description="收藏一份菜谱"
)
async def save_recipe(_ctx: AgentCtx, title: str, ingredients: List[str], steps: str = "") -> str:
    """收藏一份菜谱

    Args:
        title (str): 菜名
        ingredients (List[str]): 食材
        steps (str): 做法

    Example:
        save_recipe("番茄炒蛋", ["番茄", "鸡蛋"], "先炒蛋再放番茄")
    """
    client = await get_qdrant_client()
    point_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{_ctx.chat_key}/{title}"))
    vector = await _embed(f"{title} {' '.join(ingredients)} {steps}")
    await client.upsert(
        collection_name=plugin.get_vector_collection_name(),
        points=[
            qdrant_models.PointStruct(
                id=point_id,
                vector=vector,
                payload={
                    "title": title,
                    "ingredients": ingredients,
                    "steps": steps,
                    "chat_key": _ctx.chat_key,
                },
            ),
        ],
    )
    return f"已收藏《{title}》，食材 {len(ingredients)} 样"


@plugin.mount_sandbox_method(
    SandboxMethodType.AGENT, name="找菜谱", description="用一句话检索收藏的菜谱"
)
async def find_recipe(_ctx: AgentCtx, query: str, limit: int = 2) -> str:
    """检索菜谱

    Args:
        query (str): 想吃什么
        limit (int): 最多几份
    """
    client = await core.get_qdrant_client()
    found = await client.search(
        collection_name=plugin.get_vector_collection_name(),
        query_vector=await _embed(query),
        query_filter=_chat_filter(_ctx.chat_key),
        limit=limit,
        score_threshold=recipe_config.MIN_SCORE or None,
        with_payload=True,
    )
    if not found:
        return "收藏夹里没有合适的菜谱"
    return "\n".join(
        f"《{p.payload['title']}》: {'、'.join(p.payload['ingredients'])}" for p in found
    )


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="最像的菜", description="返回最相近的菜名"
)
async def nearest_title(_ctx: AgentCtx, query: str) -> Dict[str, Any]:
    """返回最相近的菜名和分数

    Args:
        query (str): 描述
    """
    client = await get_qdrant_client()
    res = await client.query_points(
        collection_name=plugin.get_vector_collection_name(),
        query=await _embed(query),
        query_filter=_chat_filter(_ctx.chat_key),
        limit=1,
    )
    if not res.points:
        return {}
    return {"title": res.points[0].payload["title"], "score": round(float(res.points[0].score), 3)}


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="菜谱目录", description="列出收藏的全部菜名"
)
async def list_recipes(_ctx: AgentCtx) -> List[str]:
    """列出收藏的全部菜名"""
    client = await get_qdrant_client()
    points, _next = await client.scroll(
        collection_name=plugin.get_vector_collection_name(),
        scroll_filter=_chat_filter(_ctx.chat_key),
        limit=100,
        with_payload=True,
        with_vectors=False,
    )
    return sorted(p.payload["title"] for p in points)


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, name="删除菜谱", description="删除一份菜谱")
async def delete_recipe(_ctx: AgentCtx, title: str) -> int:
    """删除菜谱，返回剩余份数

    Args:
        title (str): 菜名
    """
    client = await get_qdrant_client()
    name = plugin.get_vector_collection_name()
    await client.delete(
        collection_name=name,
        points_selector=qdrant_models.FilterSelector(
            filter=_chat_filter(_ctx.chat_key, title=title)
        ),
    )
    left = await client.count(
        collection_name=name, count_filter=_chat_filter(_ctx.chat_key), exact=True
    )
    return left.count
