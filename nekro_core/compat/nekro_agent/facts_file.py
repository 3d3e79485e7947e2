"""Small facts that existing plugins keep about users, chats and presets and that we have no table
for: one JSON file each, under the data folder."""

import json
import os
from pathlib import Path
from typing import Any

from loguru import logger

from nekro_core.system.atomic_files import write_whole

Facts = dict[str, Any]


class FactsFile:
    """Facts by key, in memory and in a file that is replaced as a whole. For hundreds, not for
    thousands."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._facts: dict[str, Facts] | None = None

    def get(self, key: str) -> Facts:
        """What is kept under a key; empty where nothing is."""
        return dict(self._read().get(key, {}))

    def all(self) -> dict[str, Facts]:
        """Everything."""
        return {key: dict(facts) for key, facts in self._read().items()}

    def put(self, key: str, facts: Facts) -> None:
        """Keep facts instead of those that were there. Raises `OSError`, and `TypeError` for what
        JSON cannot hold."""
        self._write({**self._read(), key: facts})

    def drop(self, key: str) -> None:
        """Forget what is kept under a key."""
        self._write({each: facts for each, facts in self._read().items() if each != key})

    def _read(self) -> dict[str, Facts]:
        if self._facts is None:
            self._facts = self._load()
        return self._facts

    def _load(self) -> dict[str, Facts]:
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            spoilt = self._path.with_suffix(".unreadable.json")
            os.replace(self._path, spoilt)  # noqa: PTH105 - said plainly
            logger.error("{}: no JSON ({}); it is kept as {}", self._path, error, spoilt.name)
            return {}
        return {key: facts for key, facts in data.items() if isinstance(facts, dict)}

    def _write(self, facts: dict[str, Facts]) -> None:
        text = json.dumps(facts, ensure_ascii=False, indent=1)
        write_whole(self._path, text.encode())
        self._facts = facts
