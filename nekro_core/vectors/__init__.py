"""An embedded vector store, behind the names of Qdrant's client."""

from nekro_core.vectors import models
from nekro_core.vectors.client import AsyncQdrantClient
from nekro_core.vectors.errors import BadVector, NoCollection, VectorError
from nekro_core.vectors.filters import BadFilter

__all__ = ["AsyncQdrantClient", "BadFilter", "BadVector", "NoCollection", "VectorError", "models"]
