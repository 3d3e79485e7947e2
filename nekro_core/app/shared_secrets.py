"""Gives the processes that share a database the same secrets.

Each process has a data folder of its own, and makes its secrets there when it needs them. If
several processes serve one bot, a link that one process has signed must open at another process,
and a browser that is logged in at one process must be logged in at all of them. So the first
process stores its secrets in the database. Each other process replaces its own secrets by the
stored ones when it starts.
"""

from pathlib import Path

import anyio.to_thread

from nekro_core.store.documents import DatabaseDocuments
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.documents import DocumentConflict, DocumentError
from nekro_core.system.secrets import FOLDER, kept_secret, secret_file

SHARED = (
    "erased",
    "links",
    "memory",
    "web_access_token",
    "web_session_secret",
    "webhooks",
)
"""The names of the secrets that all processes of the bot share. A secret that only one program on
one machine uses, such as ``mcp_token``, is not shared."""


async def share_secrets(data: Path, documents: DatabaseDocuments) -> None:
    """Replace the secrets of a data folder by those in the database. A secret that the database
    does not have yet is copied from the data folder to the database. Call this before the secrets
    are used. Raises `DocumentError` and `OSError`."""
    secrets = documents.with_secrets((f"{FOLDER}/*",))
    for name in SHARED:
        document = f"{FOLDER}/{name}"
        found = await secrets.read(document)
        if found is None:
            own = await anyio.to_thread.run_sync(kept_secret, data, name)
            try:
                await secrets.write(document, own, expected=None)
            except DocumentConflict:
                found = await secrets.read(document)  # Another process has just stored its secret.
                if found is None:
                    raise DocumentError(f"{document} was removed while it was read") from None
            else:
                continue
        await anyio.to_thread.run_sync(_keep, secret_file(data, name), found.text)


def _keep(path: Path, text: str) -> None:
    if not path.exists() or path.read_text().strip() != text:
        write_whole(path, text.encode())
