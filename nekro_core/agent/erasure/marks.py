"""Remembers who was erased and when, so that an erased person's old messages are not stored again.

When an account comes online again, its adapter asks the platform for missed messages. These may
include messages that were erased a minute ago. A mark is a digest of the person's id, made with a
secret of this bot. When a mark is 400 days old, the next erasure of any person deletes the mark.

A restore of a backup erases everybody again who was erased after the backup was made; see
`nekro_core.app.restore`.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from loguru import logger

from nekro_core.system.atomic_files import write_whole

RETENTION_S = 400 * 86_400.0
"""Minimum time in seconds for which a mark is stored. If a backup is older than this, some marks of
people who were erased after the backup may be gone. The restore would bring back the data of these
people, so it warns."""
FILE_NAME = "erased.json"


class ErasureMarks:
    """Stores the marks in memory and in a small file. Without a path, it stores them only in
    memory. ``secret`` is called once, when the first digest is made."""

    def __init__(
        self, path: Path | None, secret: Callable[[], str], wall: Callable[[], float]
    ) -> None:
        self._path = path
        self._secret = cache(secret)
        self._wall = wall
        self._marks = self._read()

    def add(self, adapter: str, user_id: str) -> None:
        """Mark a person as erased now. Raises `OSError`."""
        now = self._wall()
        self._marks = {each: at for each, at in self._marks.items() if at > now - RETENTION_S}
        self._marks[self._digest(adapter, user_id)] = now
        self._write()

    def was_erased(self, adapter: str, user_id: str, said: float) -> bool:
        """Return whether this person was erased at or after ``said``, the time of a message in
        seconds since 1970."""
        if not self._marks:
            return False
        return said <= self._marks.get(self._digest(adapter, user_id), 0.0)

    def all(self) -> Mapping[str, float]:
        """Return all marks: when each digest was marked, in seconds since 1970."""
        return self._marks

    def merge(self, other: "ErasureMarks") -> None:
        """Add the marks of another data folder that has the same secret. Raises `OSError`."""
        self.take_over(other.all())

    def take_over(self, marks: Mapping[str, float]) -> None:
        """Add marks that were made with the same secret. Raises `OSError`."""
        newer = {each: at for each, at in marks.items() if at > self._marks.get(each, 0.0)}
        if newer:
            self._marks = {**self._marks, **newer}
            self._write()

    def _digest(self, adapter: str, user_id: str) -> str:
        text = f"{adapter}:{user_id}".encode(errors="replace")
        return hmac.new(self._secret().encode(), text, hashlib.sha256).hexdigest()

    def _read(self) -> dict[str, float]:
        if self._path is None or not self._path.exists():
            return {}
        try:
            found = json.loads(self._path.read_text())
            return {str(each): float(at) for each, at in found.items()}
        except (OSError, ValueError, AttributeError) as error:
            logger.error("{} cannot be read: {}", self._path, error)
            return {}

    def _write(self) -> None:
        if self._path is None:
            return
        write_whole(self._path, json.dumps(self._marks).encode())
