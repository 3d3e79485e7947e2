"""Where a bot's vectors are, before anybody has asked for them."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from nekro_core.plugins.authoring.services import PayloadRedactor

if TYPE_CHECKING:
    from nekro_core.compat.qdrant.client import AsyncQdrantClient


FILE_NAME = "vectors.sqlite3"


class EmbeddedVectorStore:
    """A folder, and one client for it. Most bots have no plugin that keeps vectors: nothing is
    loaded for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._client: AsyncQdrantClient | None = None
        self._lock = anyio.Lock()

    async def client(self) -> "AsyncQdrantClient":
        """The client, the same for all."""
        async with self._lock:
            if self._client is None:
                module: Any = await anyio.to_thread.run_sync(
                    importlib.import_module, "nekro_core.compat.qdrant.client"
                )
                self._client = module.AsyncQdrantClient(path=self.folder)
            return self._client

    async def forget(self, forgotten: PayloadRedactor) -> int:
        """Forget points that are about a person, and the person in those of others; how many were
        changed. The file is written anew."""
        if not (self.folder / FILE_NAME).exists():
            return 0
        client = await self.client()
        return await client.forget(forgotten)

    async def aclose(self) -> None:
        """Close the file."""
        if self._client is not None:
            await self._client.close()
