"""Records what operators do: who did it, from where, and the values before and after the change."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pydantic_core import to_jsonable_python

from nekro_core.operator.entry_limit import EntryLimit
from nekro_core.operator.masks import masked_parameters, masked_text
from nekro_core.operator.roles import Actor
from nekro_core.store import AuditRow

MAX_VALUE_CHARS = 20_000
"""Maximum length of the JSON of an old or new value in the log. A longer value is cut off at this
length."""


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoCall:
    """The action that undoes a change.

    Attributes:
        action: The action's full name, for example ``chats.set_policy``.
        parameters: The action's parameters. They are stored in the log, so they must not contain
            secrets.
    """

    action: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[Result]):
    """What an action has changed. Each action returns a `Change`.

    Attributes:
        result: What the caller gets.
        subject: The name of the changed thing, for example a chat key.
        old: The value before the change. It must not contain secrets; `pydantic.SecretStr` is
            stored as stars.
        new: The value after the change.
        undo: The action that undoes the change; None if the change cannot be undone.
    """

    result: Result
    subject: str = ""
    old: Any = None
    new: Any = None
    undo: UndoCall | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[Result]):
    """The outcome of an action.

    Attributes:
        result: What the action returned.
        entry_id: The number of the entry in the audit log.
        undoable: Whether `audit.undo` can undo the change.
    """

    result: Result
    entry_id: int
    undoable: bool


class AuditRows(Protocol):
    """Stores the entries (`nekro_core.store.audit.AuditRepository`)."""

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

    async def mark_undone(self, entry_id: int, by: int) -> None:
        """Store that the action with the entry ``by`` undid this change."""

    async def one(self, entry_id: int) -> AuditRow | None:
        """Get an entry."""

    async def newest(
        self,
        *,
        before: int = 0,
        actor: str = "",
        area: str = "",
        subject: str = "",
        limit: int = 50,
    ) -> Sequence[AuditRow]:
        """List the newest entries, newest first."""


class AuditLog:
    """Writes an entry for each action when it begins, and adds the outcome when it ends. So the log
    also has actions during which the process was killed."""

    def __init__(self, rows: AuditRows) -> None:
        self.rows = rows
        self.limit = EntryLimit()

    async def begin(self, actor: Actor, action: str, parameters: Mapping[str, Any]) -> int:
        """Store that an action begins, with its parameters. Parts of the parameters that look like
        secrets are replaced by stars. Returns the entry's number."""
        given = masked_parameters(to_jsonable_python(parameters, fallback=str))
        return await self.rows.begin(
            actor=actor.name,
            role=actor.role.value,
            origin=actor.origin.value,
            address=actor.address,
            action=action,
            parameters=as_json(given),
        )

    async def done(self, entry_id: int, change: Change[Any]) -> None:
        """Store what the action changed."""
        undo = change.undo
        await self.rows.finish(
            entry_id,
            outcome="done",
            subject=change.subject,
            old=as_json(change.old),
            new=as_json(change.new),
            undo_action=undo.action if undo else "",
            # Not `as_json`: an undo must read the parameters again, so they must not be cut off.
            undo_parameters=_whole_json(undo.parameters) if undo else "",
        )

    async def failed(self, entry_id: int, outcome: str, error: str) -> None:
        """Store that the action failed (``failed``), was refused (``denied``) or was cancelled
        (``cancelled``)."""
        text = masked_text(error)[:MAX_VALUE_CHARS]
        await self.rows.finish(entry_id, outcome=outcome, error=text)

    async def denied(self, actor: Actor, action: str, why: str) -> None:
        """Store that an action was refused because of who asked. If one address causes too many
        such entries, further entries are left out."""
        if not self.limit.take(actor, denied=True):
            await self.failed(await self.begin(actor, action, {}), "denied", why)


def as_json(value: Any) -> str:
    """Return a value as JSON for the log, cut off at `MAX_VALUE_CHARS`; empty for None. Secrets of
    the type `pydantic.SecretStr` become stars."""
    return _whole_json(value)[:MAX_VALUE_CHARS] if value is not None else ""


def _whole_json(value: Any) -> str:
    return json.dumps(to_jsonable_python(value, fallback=str), ensure_ascii=False)
