"""Shows the audit log and undoes changes."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, Done
from nekro_core.operator.errors import ChangedMeanwhile, NoSuchItem, OperatorError
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.store import AuditRow

Perform = Callable[[Actor, str, Mapping[str, Any]], Awaitable[Done[Any]]]


class Audit(Area):
    """What operators did.

    Args:
        audit: The log.
        perform: Carries an action out by its full name; undo uses it.
    """

    name = "audit"

    def __init__(self, audit: AuditLog, perform: Perform) -> None:
        super().__init__(audit)
        self._perform = perform
        self._undoing: set[int] = set()

    @query(role=AccessRole.OPERATOR)
    async def newest(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        before: int = 0,
        person: Annotated[str, Field(max_length=200)] = "",
        area: Annotated[str, Field(max_length=64)] = "",
        subject: Annotated[str, Field(max_length=1000)] = "",
        limit: int = 50,
    ) -> list[AuditRow]:
        """List what operators did, newest first.

        Args:
            before: The number of an entry: list only entries before it; 0 for the newest.
            person: Only entries of this person.
            area: Only actions of this area, for example ``chats``.
            subject: Only changes of this thing, for example a chat key.
            limit: The largest number of entries, at most 500.
        """
        rows = await self.audit_log.rows.newest(
            before=before, actor=person, area=area, subject=subject, limit=limit
        )
        return [*rows]

    @action(role=AccessRole.VIEWER)
    async def undo(self, actor: Actor, *, entry_id: int) -> Change[Any]:
        """Undo a change. The actor needs the role that the change needed.

        Args:
            entry_id: The number of the entry in the audit log.
        """
        if entry_id in self._undoing:
            raise OperatorError(f"entry {entry_id} is being taken back now")
        self._undoing.add(entry_id)
        try:
            return await self._undo(actor, entry_id)
        finally:
            self._undoing.discard(entry_id)

    async def _undo(self, actor: Actor, entry_id: int) -> Change[Any]:
        row = await self.audit_log.rows.one(entry_id)
        if row is None:
            raise NoSuchItem(f"there is no entry {entry_id} in the audit log")
        if row.undone_by:
            raise OperatorError(f"entry {row.undone_by} has taken this change back already")
        if not row.undo_action:
            raise OperatorError(f"{row.action} cannot be taken back")
        await self._refuse_if_changed_since(row)
        parameters = json.loads(row.undo_parameters)
        done = await self._perform(actor, row.undo_action, parameters)
        await self.audit_log.rows.mark_undone(entry_id, done.entry_id)
        return Change(result=done.result, subject=f"entry {entry_id}")

    async def _refuse_if_changed_since(self, row: AuditRow) -> None:
        """Raise `ChangedMeanwhile` if a later change of the same thing was not undone."""
        area = row.action.partition(".")[0]
        later = await self.audit_log.rows.newest(area=area, subject=row.subject, limit=500)
        # Leave out entries that undid another entry: they only restored the older state.
        undoing = {each.undone_by for each in later}
        for each in later:
            changed = each.outcome == "done" and not each.undone_by and not _same_state(each)
            if each.entry_id > row.entry_id and changed and each.entry_id not in undoing:
                raise ChangedMeanwhile(
                    f"{each.actor} has changed {row.subject} since (entry {each.entry_id}: "
                    f"{each.action}); take that back first"
                )


def _same_state(row: AuditRow) -> bool:
    """Return True if an entry says that a thing had the same state before and after the action, for
    example that a paused timer was paused. Other equal values can hide a change: secrets are stars
    in the log, and long values are cut off."""
    return row.old == row.new and re.fullmatch('"[a-z_]+"', row.old) is not None
