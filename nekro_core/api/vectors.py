"""A vector store, behind the names of Qdrant's client; ``models`` are what it is told and gives."""

from nekro_core.plugin.vectors import QdrantConfig, get_qdrant_client, get_qdrant_config
from nekro_core.vectors import AsyncQdrantClient, BadVector, NoCollection, VectorError, models

__all__ = [
    "AsyncQdrantClient",
    "BadVector",
    "NoCollection",
    "QdrantConfig",
    "VectorError",
    "get_qdrant_client",
    "get_qdrant_config",
    "models",
]
