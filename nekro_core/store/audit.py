"""Stores what operators did, for the audit log of the console."""

from collections.abc import Callable
from dataclasses import dataclass

from nekro_core.store.database import Database, Row, SqlStatement, Value

MAX_LISTED = 500
_COLUMNS = (
    "id, at, ended, actor, role, origin, address, action, parameters, subject, old, new, outcome, "
    "error, undo_action, undo_parameters, undone_by"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One action of an operator. ``at`` and ``ended`` are in seconds since 1970; ``ended`` is 0 and
    ``outcome`` is empty while the action runs. They stay so if the bot's process was killed
    meanwhile. ``subject`` is the thing that the action changed. ``parameters``, ``old``, ``new``
    and ``undo_parameters`` are JSON, or empty. ``undone_by`` is the number of the entry of the
    action that undid this action; 0 if there is none."""

    entry_id: int
    at: float
    ended: float
    actor: str
    role: str
    origin: str
    address: str
    action: str
    parameters: str
    subject: str
    old: str
    new: str
    outcome: str
    error: str
    undo_action: str
    undo_parameters: str
    undone_by: int


class AuditRepository:
    """The entries of the audit log."""

    def __init__(self, database: Database, *, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    async def begin(
        self,
        *,
        actor: str,
        role: str,
        origin: str,
        address: str,
        action: str,
        parameters: str,
    ) -> int:
        """Store that an action begins. Returns the entry's number."""
        ((row,),) = await self._database.write(
            SqlStatement(
                "INSERT INTO audit_log (at, ended, actor, role, origin, address, action, "
                "parameters, subject, old, new, outcome, error, undo_action, undo_parameters, "
                "undone_by) VALUES (?, 0, ?, ?, ?, ?, ?, ?, '', '', '', '', '', '', '', 0) "
                "RETURNING id",
                (self._clock(), actor, role, origin, address, action, parameters),
            )
        )
        return int(row["id"])

    async def finish(
        self,
        entry_id: int,
        *,
        outcome: str,
        subject: str = "",
        old: str = "",
        new: str = "",
        error: str = "",
        undo_action: str = "",
        undo_parameters: str = "",
    ) -> None:
        """Store how an action ended."""
        await self._database.write(
            SqlStatement(
                "UPDATE audit_log SET ended = ?, outcome = ?, subject = ?, old = ?, new = ?, "
                "error = ?, undo_action = ?, undo_parameters = ? WHERE id = ?",
                (
                    self._clock(),
                    outcome,
                    subject,
                    old,
                    new,
                    error,
                    undo_action,
                    undo_parameters,
                    entry_id,
                ),
            )
        )

    async def mark_undone(self, entry_id: int, by: int) -> None:
        """Store that another action, whose entry is ``by``, undid this action."""
        await self._database.write(
            SqlStatement("UPDATE audit_log SET undone_by = ? WHERE id = ?", (by, entry_id))
        )

    async def one(self, entry_id: int) -> AuditRow | None:
        """Get an entry by its number; None if there is none."""
        rows = await self._database.read(f"SELECT {_COLUMNS} FROM audit_log WHERE id = ?", entry_id)
        return _row_of(rows[0]) if rows else None

    async def newest(
        self,
        *,
        before: int = 0,
        actor: str = "",
        area: str = "",
        subject: str = "",
        limit: int = 50,
    ) -> list[AuditRow]:
        """List the newest entries, newest first, at most 500.

        Args:
            before: An entry's number. Only entries before it are listed. 0 lists the newest
                entries.
            actor: The person whose entries are listed; empty for all people.
            area: The area whose actions are listed, for example ``chats``; empty for all areas.
            subject: The thing whose changes are listed; empty for all things.
            limit: The largest number of entries.

        Returns:
            The entries.
        """
        conditions, values = ["1 = 1"], list[Value]()
        for condition, value in (
            ("id < ?", before),
            ("actor = ?", actor),
            ("action LIKE ?", f"{area}.%" if area else ""),
            ("subject = ?", subject),
        ):
            if value:
                conditions.append(condition)
                values.append(value)
        rows = await self._database.read(
            f"SELECT {_COLUMNS} FROM audit_log WHERE {' AND '.join(conditions)} "
            "ORDER BY id DESC LIMIT ?",
            *values,
            max(1, min(limit, MAX_LISTED)),
        )
        return [_row_of(row) for row in rows]


def _row_of(row: Row) -> AuditRow:
    return AuditRow(
        entry_id=row["id"],
        at=row["at"],
        ended=row["ended"],
        actor=row["actor"],
        role=row["role"],
        origin=row["origin"],
        address=row["address"],
        action=row["action"],
        parameters=row["parameters"],
        subject=row["subject"],
        old=row["old"],
        new=row["new"],
        outcome=row["outcome"],
        error=row["error"],
        undo_action=row["undo_action"],
        undo_parameters=row["undo_parameters"],
        undone_by=row["undone_by"],
    )
