"""Re-exports the vector store under the names of Qdrant's client. ``models`` has the types of its
arguments and results."""

from nekro_core.compat.qdrant import models
from nekro_core.compat.qdrant.client import AsyncQdrantClient
from nekro_core.compat.qdrant.functions import QdrantConfig, get_qdrant_client, get_qdrant_config
from nekro_core.store.vectors import BadVector, NoCollection, VectorError

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
