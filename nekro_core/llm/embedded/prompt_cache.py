"""Saves the prompt caches of the embedded model on disk, for the next start.

On a small machine, the model needs half a minute to read the fixed part of a prompt. Loading the
saved cache takes a tenth of a second. A file contains the state of one slot; a slot is the part of
llama.cpp's server that answers one request at a time. The server compares the state with each
prompt and reads again what differs, so with an old file the reading takes longer, but the reply is
not wrong.
"""

import hashlib
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
from loguru import logger

from nekro_core.llm.model import ChatRequest

_KEPT = 6
"""Maximum number of files on disk: enough for the current and the previous version of the prompt in
three languages. A file has 8 MB."""
_ANSWER_S = 30.0
_READABLE = 0o600


class PromptCache:
    """Saves and loads slots of the server at ``socket``, as files in ``folder``."""

    def __init__(self, folder: Path, socket: Path, key: str) -> None:
        self.folder = folder
        self._socket = socket
        self._headers = {"Authorization": f"Bearer {key}"}

    def name_of(self, model: Path, context_tokens: int, request: ChatRequest) -> str:
        """Return the name of the file for this model, with a context of ``context_tokens``, and for
        prompts that begin with the messages of ``request``."""
        digest = hashlib.sha256(f"{model.name} {context_tokens}".encode())
        for message in request.messages:
            digest.update(repr(message).encode())
        return f"{digest.hexdigest()[:32]}.reading"

    async def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return await anyio.Path(self.folder / name).exists()

    async def load(self, slot: int, name: str) -> bool:
        """Load a file into the slot. False if there is no such file or the server refuses it."""
        path = anyio.Path(self.folder / name)
        if not await path.exists():
            return False
        if await self._do(slot, "restore", name):
            await path.touch()
            return True
        await path.unlink(missing_ok=True)
        return False

    async def save(self, slot: int, name: str) -> None:
        """Save the slot's state in the file ``name``. If there are then more than `_KEPT` files,
        delete the files that were unused longest."""
        part = f"{name}.part"
        if await self._do(slot, "save", part):
            await anyio.to_thread.run_sync(self._keep, part, name)

    async def _do(self, slot: int, action: str, name: str) -> bool:
        transport = httpx.AsyncHTTPTransport(uds=str(self._socket))
        async with httpx.AsyncClient(
            transport=transport, headers=self._headers, timeout=_ANSWER_S
        ) as client:
            try:
                answer = await client.post(
                    f"http://embedded/slots/{slot}",
                    params={"action": action},
                    json={"filename": name},
                )
            except httpx.HTTPError as error:
                logger.debug("the model's prompt cache: {} of {}: {}", action, name, error)
                return False
        if answer.is_error:
            logger.debug("the model's prompt cache: {} of {}: {}", action, name, answer.text)
        return answer.is_success

    def _keep(self, part: str, name: str) -> None:
        (self.folder / part).chmod(_READABLE)
        (self.folder / part).replace(self.folder / name)
        by_use = sorted(self.folder.glob("*.reading"), key=lambda path: path.stat().st_mtime)
        for path in by_use[:-_KEPT]:
            path.unlink(missing_ok=True)
