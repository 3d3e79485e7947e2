"""Stores how far a mailbox has been read. The file is written after each processed mail."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from nekro_core.api.adapter import write_whole


@dataclass(frozen=True, slots=True)
class Position:
    """All mails up to ``uid`` have been processed. ``validity`` is the server's UIDVALIDITY, which
    the server changes when it renumbers its mails."""

    validity: int
    uid: int


class PositionFile:
    """The position file of one mailbox. Its methods block: call them in worker threads."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Position | None:
        """Return the stored position; None at the first start, or if the file is invalid."""
        try:
            stored = json.loads(self._path.read_text())
            return Position(int(stored["validity"]), int(stored["uid"]))
        except FileNotFoundError:
            return None
        except (ValueError, LookupError, TypeError):
            return None

    def write(self, position: Position) -> None:
        """Write the position. Raises `OSError`."""
        write_whole(self._path, json.dumps(asdict(position)).encode())
