"""Shows and changes the network rules of boxes while the bot runs."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from nekro_core.sandbox.egress.egress import Egress
from nekro_core.sandbox.egress.overrides import EgressOverrides, EgressOverridesFile, read_tables
from nekro_core.sandbox.egress.refusals import EgressRefusals
from nekro_core.sandbox.egress.rules import EgressRules
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.errors import NekroError

_HEAD = "# What boxes may reach: read again when it is saved.\n"


class InvalidEgressRules(NekroError, ValueError):
    """A rule is not valid, or the file cannot be read. The text says what is expected."""


class EgressRulesChanged(NekroError):
    """The file was changed by somebody else since it was read. Read it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressTable:
    """The rules of an owner, or of one of the owner's boxes.

    Attributes:
        owner: The chat key, for boxes of a chat. Empty for the rules of the settings, which apply
            to all boxes that the file does not name.
        box: The box; empty for all boxes of the owner.
        allow: What may be reached at public addresses.
        private: What may be reached even if its address is not public.
    """

    owner: str
    box: str = ""
    allow: tuple[str, ...] = ()
    private: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressShown:
    """The rules of the settings (``default``) and of the file (``tables``). ``revision`` changes
    with the file. ``problem`` says why the bot cannot apply the file; it is empty if it can. If
    there is a problem, ``tables`` is empty, and the bot still uses the last content of the file
    that it could apply."""

    default: EgressTable
    tables: tuple[EgressTable, ...]
    revision: str
    problem: str = ""


class EgressAdmin:
    """Shows and changes the rules. Changes are written to the file and applied at once.

    Args:
        path: The file, ``egress.toml``.
        rules: The reader of this file.
        egress: The network access of the running boxes.
        refusals: What was refused lately.
        default: The rules of the settings, as the operator wrote them.
    """

    def __init__(
        self,
        path: Path,
        rules: EgressOverridesFile,
        egress: Egress,
        refusals: EgressRefusals,
        default: EgressTable,
    ) -> None:
        self.refusals = refusals
        self._path = path
        self._rules = rules
        self._egress = egress
        self._default = default
        self._changing = anyio.Lock()

    async def shown(self) -> EgressShown:
        """Return the rules of the settings and of the file as it is now. Raises `OSError` if the
        file cannot be read, and `InvalidEgressRules` if it is not UTF-8."""
        text = await anyio.to_thread.run_sync(self._text)
        problem, tables = "", list[EgressTable]()
        try:
            EgressOverrides.parse(text, EgressRules())
            for (owner, box), (allow, private) in read_tables(text).items():
                tables.append(EgressTable(owner=owner, box=box, allow=allow, private=private))
        except ValueError as error:
            problem = str(error)
        return EgressShown(
            default=self._default,
            tables=tuple(tables),
            revision=_revision(text),
            problem=problem,
        )

    async def put(self, table: EgressTable, *, revision: str | None = None) -> None:
        """Write the rules of an owner or of one of the owner's boxes, in place of the earlier
        rules. Empty lists mean no network. The rules of one box change nothing for the owner's
        other boxes.

        Args:
            table: The rules.
            revision: The revision that the operator saw; None to write in any case.

        Raises:
            InvalidEgressRules: A rule is not valid, the table has no owner, or the file has
                errors. Nothing was written.
            EgressRulesChanged: The file has another revision. Nothing was written.
            OSError: The file cannot be written.
        """
        if not table.owner:
            raise InvalidEgressRules(
                "name a chat: the rules of all other boxes are the settings "
                "NEKRO_SANDBOX__EGRESS and NEKRO_SANDBOX__EGRESS_PRIVATE"
            )
        await self._change(table.owner, table.box, table, revision)

    async def remove(
        self, owner: str, box: str = "", *, boxes: bool = True, revision: str | None = None
    ) -> None:
        """Remove the rules of an owner and of all its boxes, or of one box. Then the settings apply
        to the owner, or the owner's rules to the box. If ``boxes`` is False, the rules of an
        owner's boxes stay. Raises the errors of `put`, and `InvalidEgressRules` if there are no
        such rules."""
        await self._change(owner, box, None, revision, boxes=boxes)

    async def set_default(self, allow: Sequence[str], private: Sequence[str]) -> None:
        """Use other rules for all boxes that the file does not name. Writes no file. Raises
        `InvalidEgressRules`."""
        try:
            rules = EgressRules.parse(allow, private)
        except ValueError as error:
            raise InvalidEgressRules(str(error)) from None
        self._default = EgressTable(owner="", allow=tuple(allow), private=tuple(private))
        self._rules.set_default(rules)
        await self._egress.refresh()

    async def _change(
        self,
        owner: str,
        box: str,
        table: EgressTable | None,
        revision: str | None,
        *,
        boxes: bool = True,
    ) -> None:
        async with self._changing:
            await anyio.to_thread.run_sync(self._write, owner, box, table, revision, boxes)
            self._rules.look()
        await self._egress.refresh()

    def _write(
        self,
        owner: str,
        box: str,
        table: EgressTable | None,
        revision: str | None,
        boxes: bool,
    ) -> None:
        import tomlkit  # noqa: PLC0415 - this import takes 20 ms; only a write needs it

        text = self._text()
        if revision is not None and revision != _revision(text):
            raise EgressRulesChanged(
                f"{self._path.name} was changed since you opened it: look at it again, then repeat"
            )
        try:
            document: Any = tomlkit.parse(text or _HEAD)
        except ValueError as error:
            raise InvalidEgressRules(f"{self._path.name} cannot be read: {error}") from None
        place, path = document, (owner, "boxes", box) if box else (owner,)
        above: list[Any] = []
        for name in path:
            if name not in place:
                if table is None:
                    raise InvalidEgressRules(f"there are no rules of {box or owner!r}")
                place[name] = tomlkit.table(is_super_table=name == "boxes")
            above.append(place)
            place = place[name]
        if table is None and not box and not boxes and place.get("boxes"):
            if "allow" not in place and "private" not in place:
                raise InvalidEgressRules(f"there are no rules of {owner!r} itself")
            for name in ("allow", "private"):
                place.pop(name, None)
        elif table is None:
            # An empty table of the owner would mean that the owner has no network, so tables that
            # have become empty are removed too.
            for name, parent in zip(reversed(path), reversed(above), strict=True):
                if name == path[-1] or not parent[name]:
                    del parent[name]
        else:
            place["allow"] = list(table.allow)
            place.pop("private", None)
            if table.private:
                place["private"] = list(table.private)
        written = tomlkit.dumps(document)
        try:
            EgressOverrides.parse(written, EgressRules())
        except ValueError as error:
            raise InvalidEgressRules(str(error)) from None
        write_whole(self._path, written.encode())

    def _text(self) -> str:
        try:
            return self._path.read_text("utf-8")
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError as error:
            raise InvalidEgressRules(f"{self._path.name} is no UTF-8: {error.reason}") from None


def _revision(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
