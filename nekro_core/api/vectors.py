"""A vector store, behind the names of Qdrant's client; ``models`` are what it is told and gives."""

from nekro_core.plugin.vectors import QdrantConfig, get_qdrant_client, get_qdrant_config
from nekro_core.vectors import models
from nekro_core.vectors.client import AsyncQdrantClient
from nekro_core.vectors.errors import BadVector, NoCollection, VectorError

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
