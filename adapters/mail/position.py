"""Remembers how far a mailbox has been read. Written once a mail is stored."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from nekro_core.api.adapter import write_whole


@dataclass(frozen=True, slots=True)
class Position:
    """Mails up to ``uid`` are handed over. A server that numbers its mails anew changes
    ``validity``."""

    validity: int
    uid: int


class PositionFile:
    """For worker threads."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Position | None:
        """Nothing at the first start."""
        try:
            stored = json.loads(self._path.read_text())
            return Position(int(stored["validity"]), int(stored["uid"]))
        except FileNotFoundError:
            return None
        except (ValueError, LookupError, TypeError):
            return None

    def write(self, position: Position) -> None:
        """Raises `OSError`."""
        write_whole(self._path, json.dumps(asdict(position)).encode())
