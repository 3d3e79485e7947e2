"""The bot's vector store, as existing plugins come by it."""

from dataclasses import dataclass

from nekro_core.compat.qdrant.client import AsyncQdrantClient
from nekro_core.plugins.authoring.current import NoCurrentBot, current_services


@dataclass(frozen=True, slots=True)
class QdrantConfig:
    """How the store is reached: in a folder of the bot's, without a server."""

    path: str
    url: str = ""
    api_key: str = ""
    timeout: int = 30


async def get_qdrant_client() -> AsyncQdrantClient:
    """The bot's store, shared by all plugins: name collections by
    `NekroPlugin.get_vector_collection_name`, and do not close it. Raises `NoCurrentBot`."""
    home = current_services().vectors
    if home is None:
        raise NoCurrentBot("this bot has no vector store")
    return await home.client()


def get_qdrant_config() -> QdrantConfig:
    """How the store is reached."""
    return QdrantConfig(path=str(current_services().data_dir / "vectors"))
