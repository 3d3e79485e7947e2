"""Tells all processes that share a database which people were erased.

Each process has marks of erased people in memory and in a file (`ErasureMarks`), and refuses old
messages of these people. The marks of all processes are merged in a document of the database. So if
a platform delivers an old message again to one process, it is refused even if another process
erased its author.
"""

import json

from nekro_core.agent.erasure.marks import FILE_NAME as MARKS
from nekro_core.agent.erasure.marks import ErasureMarks
from nekro_core.chat.redact import RedactionTarget
from nekro_core.store import Person, PersonTraces
from nekro_core.store.documents import DatabaseDocuments
from nekro_core.system.documents import Document, DocumentConflict, DocumentError

_TRIES = 5
"""Maximum number of attempts to store the marks. An attempt fails if another process stores its
marks at the same moment."""


class SharedMarks:
    """Merges the marks of a process with the marks of the other processes. A mark is a digest that
    is made with a secret, so all processes must have the same secret
    (`nekro_core.app.shared_secrets`)."""

    def __init__(self, marks: ErasureMarks, documents: DatabaseDocuments) -> None:
        self._marks = marks
        self._documents = documents.with_secrets((MARKS,))

    async def take_over(self, name: str = "") -> None:
        """Take over the marks of other processes. ``name`` is the name of the document that has
        changed; empty if any document may have changed. Raises `DocumentError` and `OSError`."""
        if name in ("", MARKS):
            self._merge(await self._documents.read(MARKS))

    async def publish(self) -> None:
        """Add the marks of this process to the document that all processes read. Raises
        `DocumentError` and `OSError`."""
        for tries_left in reversed(range(_TRIES)):
            found = await self._documents.read(MARKS)
            stored = self._merge(found)
            if stored == self._marks.all():
                return
            text = json.dumps(dict(self._marks.all()))
            try:
                await self._documents.write(MARKS, text, expected=found.revision if found else None)
            except DocumentConflict:
                if not tries_left:
                    raise
            else:
                return

    async def erase(
        self, _person: Person, _traces: PersonTraces, _forgotten: RedactionTarget
    ) -> int:
        """Tell the other processes about an erasure, by `publish`; see
        `nekro_core.agent.erasure.erasure.Eraser`."""
        await self.publish()
        return 0

    def _merge(self, found: Document | None) -> dict[str, float]:
        if found is None:
            return {}
        try:
            stored = {str(each): float(at) for each, at in json.loads(found.text).items()}
        except (ValueError, AttributeError, TypeError) as error:
            raise DocumentError(f"{MARKS} in the database cannot be read: {error}") from error
        self._marks.take_over(stored)
        return stored
