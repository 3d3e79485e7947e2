"""Which plugins the operator has switched off: a small file under the data folder."""

import json
import os
from pathlib import Path

from loguru import logger

FILE_NAME = "plugins.json"


class Choices:
    """The operator's choices. A plugin that is not named is on."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / FILE_NAME
        self._disabled = self._read()

    def wanted(self, item: str) -> bool:
        """Whether a plugin is on."""
        return item not in self._disabled

    def choose(self, item: str, *, wanted: bool) -> None:
        """Remember a choice, on disk before it is in force."""
        disabled = self._disabled - {item} if wanted else self._disabled | {item}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(f".{FILE_NAME}.new")
        fresh.write_text(json.dumps({"disabled": sorted(disabled)}, indent=2), encoding="utf-8")
        os.replace(fresh, self._path)  # noqa: PTH105 - said plainly: the old file is replaced
        self._disabled = disabled

    def _read(self) -> frozenset[str]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))["disabled"]
            return frozenset(str(item) for item in found)
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError, KeyError, TypeError) as error:
            aside = self._path.with_suffix(".broken")
            logger.error(
                "{}: cannot be read ({}); kept as {}, every plugin is on", self._path, error, aside
            )
            if self._path.is_file():
                os.replace(self._path, aside)  # noqa: PTH105 - as above
            return frozenset()
