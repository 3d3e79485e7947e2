"""Gives the processes that share a database the same secrets.

Each process has a data folder of its own, and makes its secrets there when it needs them. If
several processes serve one bot, a link that one has signed must open at another, and a browser that
is logged in at one must be logged in at all. So the first process stores its secrets in the
database, and each other process takes them over at its start.
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
"""The secrets of the bot. A secret of a single program, such as ``mcp_token``, is not shared."""


async def share_secrets(data: Path, documents: DatabaseDocuments) -> None:
    """Make the secrets of a data folder the same as those of the database. A secret that the
    database does not have yet is stored there. Call this before the secrets are used. Raises
    `DocumentError` and `OSError`."""
    secrets = documents.with_secrets((f"{FOLDER}/*",))
    for name in SHARED:
        document = f"{FOLDER}/{name}"
        found = await secrets.read(document)
        if found is None:
            own = await anyio.to_thread.run_sync(kept_secret, data, name)
            try:
                await secrets.write(document, own, expected=None)
            except DocumentConflict:
                found = await secrets.read(document)  # Another process was first.
                if found is None:
                    raise DocumentError(f"{document} was removed while it was read") from None
            else:
                continue
        await anyio.to_thread.run_sync(_keep, secret_file(data, name), found.text)


def _keep(path: Path, text: str) -> None:
    if not path.exists() or path.read_text().strip() != text:
        write_whole(path, text.encode())
