"""Rules of single owners and boxes, in a file that an operator may change while the bot runs.

::

    ["onebot_v11-group_30003"]             # an owner; in chats that is the chat's key
    allow = ["example.org", "*.example.net:8443"]
    private = ["index.lan:3141"]           # at addresses that are not public too

    ["onebot_v11-group_30003".boxes.build] # one of its boxes: this instead of the above
    allow = []
"""

import logging
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from nekro_core.sandbox.egress.rules import EgressRules
from nekro_core.system.atomic_files import WatchedFile

_log = logging.getLogger(__name__)


class _BoxTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    allow: tuple[str, ...] = ()
    private: tuple[str, ...] = ()


class _OwnerTable(_BoxTable):
    boxes: dict[str, _BoxTable] = {}


_FILE = TypeAdapter(dict[str, _OwnerTable])


@dataclass(frozen=True, slots=True)
class EgressOverrides:
    """Rules of single owners (with an empty box name) and of single boxes; ``default`` is for all
    others.

    Only the most specific rules apply, so an override can also allow less.
    """

    default: EgressRules
    particular: Mapping[tuple[str, str], EgressRules]

    def rules(self, owner: str, name: str) -> EgressRules:
        """Return the rules of a box."""
        for key in ((owner, name), (owner, "")):
            if key in self.particular:
                return self.particular[key]
        return self.default

    @classmethod
    def parse(cls, text: str, default: EgressRules) -> "EgressOverrides":
        """Read a file's text. Raises `ValueError`, which says what is wrong."""
        try:
            tables = _FILE.validate_python(tomllib.loads(text))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            raise ValueError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
        particular = {}
        for owner, table in tables.items():
            particular[owner, ""] = EgressRules.parse(table.allow, table.private)
            for name, box in table.boxes.items():
                particular[owner, name] = EgressRules.parse(box.allow, box.private)
        return cls(default, particular)


class EgressOverridesFile:
    """The file, read again when it changes. If it cannot be read, the last rules stay in force."""

    def __init__(self, path: Path, default: EgressRules) -> None:
        self._file = WatchedFile(path)
        self._none = EgressOverrides(default, {})
        self._current = self._none
        self.look()

    def rules(self, owner: str, name: str) -> EgressRules:
        """Return the rules of a box as they are now."""
        return self._current.rules(owner, name)

    def look(self) -> bool:
        """Read the file if it changed. Return whether any rule changed."""
        before = self._current
        try:
            if not self._file.changed():
                return False
            text = self._file.path.read_text("utf-8")
            self._current = EgressOverrides.parse(text, self._none.default)
        except FileNotFoundError:
            self._current = self._none
        except (OSError, ValueError) as error:
            _log.error("%s is not taken, its last rules stay: %s", self._file.path, error)
        return self._current != before
