"""The bot's vector store. Its code is imported when a plugin first uses it."""

import importlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from nekro_core.plugins.authoring.services import PayloadRedactor
from nekro_core.store.vectors import FILE_NAME

if TYPE_CHECKING:
    from nekro_core.compat.qdrant.client import AsyncQdrantClient


class EmbeddedVectorStore:
    """Holds the folder of the vector store and the client for it. The client's code is imported at
    its first use, because most bots have no plugin that stores vectors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._client: AsyncQdrantClient | None = None
        self._lock = threading.Lock()

    async def client(self) -> "AsyncQdrantClient":
        """The client that all plugins share."""
        return await anyio.to_thread.run_sync(self.open_client)

    def open_client(self) -> "AsyncQdrantClient":
        """Return the same client as `client`, for callers in a thread. It blocks while the client's
        code is imported."""
        with self._lock:
            if self._client is None:
                module: Any = importlib.import_module("nekro_core.compat.qdrant.client")
                self._client = module.AsyncQdrantClient(path=self.folder)
            return self._client

    async def forget(self, forgotten: PayloadRedactor) -> int:
        """Erase a person: delete the points about the person, and remove the person from other
        payloads.

        Returns the number of deleted or changed points. If it is not 0, the file is rewritten.
        """
        if not (self.folder / FILE_NAME).exists():
            return 0
        client = await self.client()
        return await client.forget(forgotten)

    async def aclose(self) -> None:
        """Close the file."""
        if self._client is not None:
            await self._client.close()
