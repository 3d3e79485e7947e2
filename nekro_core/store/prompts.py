"""Stores what the model was shown: a recipe for each step, and the parts that recipes refer to.

A part is stored only once, even if many prompts contain it. The time of its last use is stored too,
but it may be up to an hour too early. With this time, `RowRetention.prompt_parts` finds the parts
that no stored turn shows any more.
"""

import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Self

from nekro_core.store.database import Database, Row, Rows, SqlStatement
from nekro_core.store.errors import StoreError
from nekro_core.store.prompt_recipe import part_hash

USED_WITHIN_S = 3600.0
"""A part's time of use is written again only if the stored time is older than this many seconds."""
_REMEMBERED = 8192
"""Maximum number of parts for which the process remembers that they are stored."""
_PLAIN, _PACKED = b"=", b"z"
_WORTH_PACKING = 200
"""Parts with fewer bytes are not compressed, because compression would not make them smaller."""
_LOOKED_BACK = 5
"""Maximum number of earlier turns that are searched for the chat's last prompt. Several are needed,
because a turn may have made no request."""
_READ = 200
"""Maximum number of parts that one query reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPart:
    """A text or picture of prompts. ``chat_key`` is empty if the part cannot contain words of
    people. ``hash`` is the part's name in recipes."""

    chat_key: str
    data: bytes
    hash: str

    @classmethod
    def of(cls, chat_key: str, text: str) -> Self:
        """Make a part of a text."""
        data = text.encode("utf-8", "replace")
        return cls(chat_key=chat_key, data=data, hash=part_hash(chat_key, data))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRow:
    """What the model was shown in one step: a recipe (`nekro_core.store.prompt_recipe`) and the
    step's times (`nekro_core.store.turn_trace`), both JSON. ``error`` says why there was no
    reply."""

    turn_id: int
    position: int
    chat_key: str
    recipe: str
    times: str = ""
    error: str = ""


class UnknownPartForm(StoreError):
    """A newer version of the bot stored a part of a prompt, or the row is damaged."""


class PromptRepository:
    """All prompts and their parts."""

    def __init__(self, database: Database, *, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._stored: OrderedDict[str, float] = OrderedDict()

    def add(
        self, row: PromptRow, parts: Collection[PromptPart], *, beside: Sequence[SqlStatement] = ()
    ) -> Awaitable[object]:
        """Queue a prompt, and those of its parts that are not stored yet. ``beside`` has further
        statements for the same transaction."""
        now = self._clock()
        named = {part.hash: part for part in parts}
        fresh = {
            name: part
            for name, part in named.items()
            if name not in self._stored or self._stored[name] < now - USED_WITHIN_S
        }

        def committed(_: list[Rows]) -> None:
            for name in fresh:
                self._stored[name] = now
                self._stored.move_to_end(name)
            while len(self._stored) > _REMEMBERED:
                self._stored.popitem(last=False)

        return self._database.write(
            *beside,
            SqlStatement(
                "INSERT INTO prompts (turn_id, position, chat_key, recipe, times, error) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (turn_id, position) DO UPDATE SET "
                "recipe = excluded.recipe, times = excluded.times, error = excluded.error",
                (row.turn_id, row.position, row.chat_key, row.recipe, row.times, row.error),
            ),
            *(_insert(name, part, now) for name, part in fresh.items()),
            committed=committed,
        )

    async def of_turn(self, turn_id: int) -> list[PromptRow]:
        """Get the prompts of a turn, in order."""
        rows = await self._database.read(
            "SELECT * FROM prompts WHERE turn_id = ? ORDER BY position", turn_id
        )
        return [_prompt(row) for row in rows]

    async def before(self, chat_key: str, turn_id: int) -> PromptRow | None:
        """Get the last prompt of the chat before this turn. Only the `_LOOKED_BACK` turns before it
        are searched; None if they have no prompt."""
        rows = await self._database.read(
            "SELECT id FROM turns WHERE chat_key = ? AND id < ? ORDER BY id DESC LIMIT ?",
            chat_key,
            turn_id,
            _LOOKED_BACK,
        )
        for row in rows:
            if prompts := await self.of_turn(row["id"]):
                return prompts[-1]
        return None

    async def parts(self, names: Collection[str]) -> dict[str, bytes]:
        """Get parts by their names. Parts that are no longer stored are left out. Raises
        `UnknownPartForm`."""
        found: dict[str, bytes] = {}
        wanted = sorted(set(names))
        for at in range(0, len(wanted), _READ):
            some = wanted[at : at + _READ]
            marks = ", ".join("?" * len(some))
            rows = await self._database.read(
                f"SELECT hash, data FROM prompt_parts WHERE hash IN ({marks})", *some
            )
            found |= {row["hash"]: unpacked(row["data"]) for row in rows}
        return found

    def forget_stored(self) -> None:
        """Forget which parts are stored. The caller has deleted some of them."""
        self._stored.clear()

    async def forget_stored_elsewhere(self, _: str = "") -> None:
        """Forget which parts are stored, because another process has deleted some."""
        self.forget_stored()


def _insert(name: str, part: PromptPart, now: float) -> SqlStatement:
    return SqlStatement(
        "INSERT INTO prompt_parts (hash, chat_key, data, used) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (hash) DO UPDATE SET used = excluded.used",
        (name, part.chat_key, _packed(part.data), now),
    )


def _packed(data: bytes) -> bytes:
    if len(data) >= _WORTH_PACKING:
        smaller = zlib.compress(data, 6)
        if len(smaller) < len(data):
            return _PACKED + smaller
    return _PLAIN + data


def unpacked(data: bytes) -> bytes:
    """Return the content of a stored part. Raises `UnknownPartForm`."""
    data = bytes(data)
    match data[:1]:
        case mark if mark == _PACKED:
            return zlib.decompress(data[1:])
        case mark if mark == _PLAIN:
            return data[1:]
    raise UnknownPartForm("a part of a prompt is stored in a form that this version does not know")


def _prompt(row: Row) -> PromptRow:
    return PromptRow(
        turn_id=row["turn_id"],
        position=row["position"],
        chat_key=row["chat_key"],
        recipe=row["recipe"],
        times=row["times"],
        error=row["error"],
    )
