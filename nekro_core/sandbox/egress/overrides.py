"""Rules of single owners and boxes, in a file that an operator may change while the bot runs.

::

    ["onebot_v11-group_30003"]             # an owner; for the box of a chat this is the chat key
    allow = ["example.org", "*.example.net:8443"]
    private = ["index.lan:3141"]           # these hosts may have addresses that are not public

    ["onebot_v11-group_30003".boxes.build] # one box of this owner: replaces the rules above
    allow = []

An owner with a table in the file gets no rules of the settings; if the table has no lists, the
owner has no network. If the file has only rules of single boxes of an owner, the settings apply to
the owner's other boxes.
"""

import logging
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    """Rules for single owners and single boxes; ``default`` is for all others. A key of
    ``particular`` is a pair: the owner, and the name of a box. If the name is empty, the rules are
    for all boxes of the owner.

    Only the most specific rules of a box apply, so an override can also allow less.
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
        """Parse the text of a file. Raises `ValueError` with the first fault."""
        tables = read_tables(text)
        return cls(default, {key: EgressRules.parse(*lists) for key, lists in tables.items()})


def read_tables(text: str) -> dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]]:
    """Read the lists ``allow`` and ``private`` of a file as they are written, by owner and box.
    Raises `ValueError` with the first fault."""
    try:
        tables = _FILE.validate_python(tomllib.loads(text))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
    found: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for owner, table in tables.items():
        if not table.boxes or table.model_fields_set & _BoxTable.model_fields.keys():
            found[owner, ""] = table.allow, table.private
        for name, box in table.boxes.items():
            found[owner, name] = box.allow, box.private
    return found


class EgressOverridesFile:
    """The rules in a file, which `look` reads again after a change. If the file cannot be read or
    parsed, the rules that were read before still apply. ``default`` are the rules of boxes that the
    file does not name."""

    def __init__(self, path: Path, default: EgressRules) -> None:
        self._file = WatchedFile(path)
        self._none = EgressOverrides(default, {})
        self._current = self._none
        self.look()

    def rules(self, owner: str, name: str) -> EgressRules:
        """Return the present rules of a box."""
        return self._current.rules(owner, name)

    def set_default(self, default: EgressRules) -> None:
        """Use other rules for all boxes that the file does not name."""
        self._none = EgressOverrides(default, {})
        self._current = replace(self._current, default=default)

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
            _log.error("%s is not valid, its last rules still apply: %s", self._file.path, error)
        return self._current != before
