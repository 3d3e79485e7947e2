import json
from pathlib import Path
from typing import Dict, List, Optional

from pydantic import BaseModel, Field

from nekro_agent.api import i18n
from nekro_agent.api.core import config as core_config
from nekro_agent.api.core import get_qdrant_client, logger
from nekro_agent.api.plugin import ConfigBase, ExtraField, NekroPlugin
from nekro_agent.services.agent.openai import gen_openai_embeddings
from qdrant_client import models as qdrant_models

plugin = NekroPlugin(
    name="表情包仓库",
    module_name="sticker_store",
    description="收集和检索表情包",
    version="0.1.0",
    author="collector",
    url="https://github.com/example/sticker_store",
    is_package=True,
    i18n_name=i18n.i18n_text(zh_CN="表情包仓库", en_US="Stickers"),
)


@plugin.mount_config()
class StickerConfig(ConfigBase):
    EMBEDDING_MODEL: str = Field(
        default="text-embedding",
        title="嵌入模型组",
        json_schema_extra=ExtraField(
            ref_model_groups=True, required=True, model_type="embedding"
        ).model_dump(),
    )
    DIMENSION: int = Field(default=256, title="维度")
    MAX_RESULTS: int = Field(default=3)


class Sticker(BaseModel):
    id: int
    description: str
    tags: List[str]
    path: str

    def text(self) -> str:
        return f"{self.description} {' '.join(self.tags)}"


class Store(BaseModel):
    stickers: Dict[int, Sticker] = {}
    last_id: int = 0

    def add(self, description: str, tags: List[str], path: str) -> Sticker:
        self.last_id += 1
        sticker = Sticker(id=self.last_id, description=description, tags=tags, path=path)
        self.stickers[sticker.id] = sticker
        return sticker


config = plugin.get_config(StickerConfig)
FOLDER: Path = plugin.get_plugin_data_dir() / "stickers"


async def load_store() -> Store:
    data: Optional[str] = await plugin.store.get(store_key="stickers")
    return Store.model_validate_json(data) if data else Store()


async def save_store(store: Store) -> None:
    await plugin.store.set(store_key="stickers", value=store.model_dump_json())


async def embed(text: str) -> List[float]:
    group = core_config.MODEL_GROUPS[config.EMBEDDING_MODEL]
    return await gen_openai_embeddings(
        model=group.CHAT_MODEL,
        input=text,
        api_key=group.API_KEY,
        base_url=group.BASE_URL,
        dimensions=config.DIMENSION,
    )


@plugin.mount_init_method()
async def init() -> None:
    """初始化向量库"""
    FOLDER.mkdir(parents=True, exist_ok=True)
    client = await get_qdrant_client()
    name = plugin.get_vector_collection_name("stickers")
    collections = await client.get_collections()
    if name not in [collection.name for collection in collections.collections]:
        await client.create_collection(
            collection_name=name,
            vectors_config=qdrant_models.VectorParams(
                size=config.DIMENSION, distance=qdrant_models.Distance.COSINE
            ),
        )
        logger.info(f"created {name}")


async def index(sticker: Sticker) -> None:
    client = await get_qdrant_client()
    await client.upsert(
        collection_name=plugin.get_vector_collection_name("stickers"),
        points=[
            qdrant_models.PointStruct(
                id=sticker.id,
                vector=await embed(sticker.text()),
                payload={"tags": sticker.tags, "data": json.dumps({"id": sticker.id})},
            )
        ],
    )


async def find(query: str, tag: str = "") -> List[int]:
    client = await get_qdrant_client()
    wanted = None
    if tag:
        wanted = qdrant_models.Filter(
            must=[
                qdrant_models.FieldCondition(key="tags", match=qdrant_models.MatchValue(value=tag))
            ]
        )
    hits = await client.search(
        collection_name=plugin.get_vector_collection_name("stickers"),
        query_vector=await embed(query),
        query_filter=wanted,
        limit=config.MAX_RESULTS,
    )
    return [int(hit.id) for hit in hits]
