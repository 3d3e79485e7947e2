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

    def key_of(self, item: str) -> str:
        """The key that a plugin had when it was switched off; it is not imported to ask again."""
        return self._disabled.get(item, "")

    def choose(self, item: str, key: str, *, wanted: bool) -> None:
        """Remember a choice, on disk before it is in force."""
        disabled = {each: known for each, known in self._disabled.items() if each != item}
        if not wanted:
            disabled[item] = key
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(f".{FILE_NAME}.new")
        fresh.write_text(json.dumps({"disabled": disabled}, indent=2), encoding="utf-8")
        os.replace(fresh, self._path)  # noqa: PTH105 - said plainly: the old file is replaced
        self._disabled = disabled

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))["disabled"]
            return {str(item): str(key) for item, key in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            aside = self._path.with_suffix(".broken")
            logger.error(
                "{}: cannot be read ({}); kept as {}, every plugin is on", self._path, error, aside
            )
            if self._path.is_file():
                os.replace(self._path, aside)  # noqa: PTH105 - as above
            return {}
