"""Stores the people who may open the console, their invitations and their recovery codes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from nekro_core.store.database import Database, Row, SqlStatement
from nekro_core.store.errors import UniqueConflict


class PersonState(StrEnum):
    """Whether a person may log in."""

    INVITED = "invited"
    ACTIVE = "active"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolePerson:
    """A person who may open the console.

    Attributes:
        person_id: The person's number. No other person ever gets it.
        name: The name, by which the person logs in.
        role: The value of a `nekro_core.operator.roles.AccessRole`.
        state: Whether the person may log in.
        password_hash: The hash of the password; empty if the person has none.
        totp_secret: The secret of the second factor; empty if the person has none.
        totp_pending: The secret of a second factor that the person has not confirmed yet.
        totp_step: The time step of the newest code that was used. An older code is refused.
        created: Seconds since 1970.
    """

    person_id: int
    name: str
    role: str
    state: PersonState
    created: float
    password_hash: str = field(default="", repr=False)
    totp_secret: str = field(default="", repr=False)
    totp_pending: str = field(default="", repr=False)
    totp_step: int = 0


COLUMNS = (
    "p.id AS person_id, p.name, p.role, p.state, p.created, p.password_hash, p.totp_secret, "
    "p.totp_pending, p.totp_step"
)
"""The columns of a person for a SELECT with the alias ``p``. `person_of` reads them."""

_KEEPS_AN_OWNER = (
    "(role <> 'owner' OR state <> 'active' OR EXISTS (SELECT 1 FROM console_people o "
    "WHERE o.role = 'owner' AND o.state = 'active' AND o.id <> console_people.id))"
)
"""The condition of an UPDATE that disables a person or changes the person's role. If the person is
an active owner, there must be another active owner."""


class ConsolePeopleRepository:
    """The people of the console. There are few people, so all of them may be read at once. Times
    are seconds since 1970."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[ConsolePerson]:
        """Get all people in the order in which they were added."""
        rows = await self._database.read(f"SELECT {COLUMNS} FROM console_people p ORDER BY id")
        return [person_of(row) for row in rows]

    async def one(self, person_id: int) -> ConsolePerson | None:
        """Get a person by their number; None if there is no such person."""
        return await self._first("p.id = ?", person_id)

    async def named(self, name_key: str) -> ConsolePerson | None:
        """Get a person by ``name_key``, which is their name in the form in which names are
        compared. None if there is no such person."""
        return await self._first("p.name_key = ?", name_key)

    async def first_owner(self) -> ConsolePerson | None:
        """Get the active owner who was added first; None if no owner is active."""
        return await self._first("p.role = 'owner' AND p.state = 'active' ORDER BY p.id LIMIT 1")

    async def add(
        self, *, name: str, name_key: str, role: str, state: PersonState, created: float
    ) -> ConsolePerson:
        """Add a person without a password. Raises `UniqueConflict` if the name is taken."""
        (rows,) = await self._database.write(
            SqlStatement(
                "INSERT INTO console_people (name, name_key, role, state, password_hash, "
                "totp_secret, totp_pending, totp_step, created) VALUES (?, ?, ?, ?, '', '', '', 0, "
                "?) ON CONFLICT DO NOTHING RETURNING id",
                (name, name_key, role, state.value, created),
            )
        )
        if not rows:
            raise UniqueConflict(f"the name {name!r} is taken: choose another one")
        return ConsolePerson(
            person_id=rows[0]["id"], name=name, role=role, state=state, created=created
        )

    async def rename(self, person_id: int, name: str, name_key: str) -> bool:
        """Change a person's name. Returns False if there is no such person. Raises `UniqueConflict`
        if another person has this name."""
        rows, people = await self._database.write(
            SqlStatement(
                "UPDATE console_people SET name = ?, name_key = ? WHERE id = ? AND NOT EXISTS "
                "(SELECT 1 FROM console_people o WHERE o.name_key = ? AND o.id <> ?) RETURNING id",
                (name, name_key, person_id, name_key, person_id),
            ),
            SqlStatement("SELECT id FROM console_people WHERE id = ?", (person_id,)),
        )
        if people and not rows:
            raise UniqueConflict(f"the name {name!r} is taken: choose another one")
        return bool(rows)

    async def change_role(self, person_id: int, role: str) -> bool:
        """Change a person's role. Returns False if no active owner would remain, or if there is no
        such person."""
        keeps = "" if role == "owner" else f" AND {_KEEPS_AN_OWNER}"
        return await self._changed(
            f"UPDATE console_people SET role = ? WHERE id = ?{keeps}", role, person_id
        )

    async def disable(self, person_id: int) -> bool:
        """Disable a person, and delete their sessions, tokens and invitation. Returns False if no
        active owner would remain, or if there is no such person."""
        gone = "(SELECT id FROM console_people WHERE id = ? AND state = 'disabled')"
        results = await self._database.write(
            SqlStatement(
                "UPDATE console_people SET state = 'disabled' WHERE id = ? AND "
                f"{_KEEPS_AN_OWNER} RETURNING id",
                (person_id,),
            ),
            *(
                SqlStatement(f"DELETE FROM {table} WHERE person_id IN {gone}", (person_id,))
                for table in ("console_sessions", "console_tokens", "console_invitations")
            ),
        )
        return bool(results[0])

    async def enable(self, person_id: int) -> bool:
        """Let a disabled person log in again. A person who has no password gets the state
        `PersonState.INVITED`, but no invitation is made. Returns False if the person is not
        disabled."""
        return await self._changed(
            "UPDATE console_people SET state = CASE WHEN password_hash = '' THEN 'invited' "
            "ELSE 'active' END WHERE id = ? AND state = 'disabled'",
            person_id,
        )

    async def set_password(self, person_id: int, password_hash: str) -> bool:
        """Store the hash of a new password. An empty text removes the password. Returns False if
        there is no such person."""
        return await self._changed(
            "UPDATE console_people SET password_hash = ? WHERE id = ?", password_hash, person_id
        )

    async def invite(self, person_id: int, token_hash: str, expires: float) -> None:
        """Store an invitation: the hash of its secret token, and when it expires, in seconds since
        1970. An earlier invitation of the person no longer works."""
        await self._database.write(
            SqlStatement("DELETE FROM console_invitations WHERE person_id = ?", (person_id,)),
            SqlStatement(
                "INSERT INTO console_invitations (person_id, token_hash, expires) VALUES (?, ?, ?)",
                (person_id, token_hash, expires),
            ),
        )

    async def invited(self, token_hash: str, now: float) -> ConsolePerson | None:
        """Get the person of an invitation, but do not use the invitation up. None if it does not
        exist or has expired, or if the person is disabled."""
        rows = await self._database.read(
            f"SELECT {COLUMNS} FROM console_people p JOIN console_invitations i "
            "ON i.person_id = p.id WHERE i.token_hash = ? AND i.expires > ? "
            "AND p.state <> 'disabled'",
            token_hash,
            now,
        )
        return person_of(rows[0]) if rows else None

    async def accept(self, token_hash: str, password_hash: str, now: float) -> int | None:
        """Use an invitation up. The person gets this password, and all sessions of the person end.

        Returns the person's number; None if the invitation was used, has expired or is not known.
        If two calls are made at the same time, only one succeeds.
        """
        person = "(SELECT person_id FROM console_invitations WHERE token_hash = ? AND expires > ?)"
        changed, _, _ = await self._database.write(
            SqlStatement(
                "UPDATE console_people SET password_hash = ?, state = 'active' "
                f"WHERE id IN {person} AND state <> 'disabled' RETURNING id",
                (password_hash, token_hash, now),
            ),
            SqlStatement(
                f"DELETE FROM console_sessions WHERE person_id IN {person}", (token_hash, now)
            ),
            SqlStatement("DELETE FROM console_invitations WHERE token_hash = ?", (token_hash,)),
        )
        return changed[0]["id"] if changed else None

    async def begin_second_factor(self, person_id: int, secret: str) -> bool:
        """Store a secret that the person must confirm with a code. Returns False if there is no
        such person."""
        return await self._changed(
            "UPDATE console_people SET totp_pending = ? WHERE id = ?", secret, person_id
        )

    async def confirm_second_factor(
        self, person_id: int, secret: str, step: int, code_hashes: Sequence[str]
    ) -> bool:
        """Make the pending secret the second factor, and replace the recovery codes. ``step`` is
        the time step of the code with which the person confirmed the secret. Returns False if the
        pending secret is no longer ``secret``."""
        ours = "(SELECT id FROM console_people WHERE id = ? AND totp_secret = ?)"
        results = await self._database.write(
            SqlStatement(
                "UPDATE console_people SET totp_secret = totp_pending, totp_pending = '', "
                "totp_step = ? WHERE id = ? AND totp_pending = ? RETURNING id",
                (step, person_id, secret),
            ),
            SqlStatement(
                f"DELETE FROM console_recovery_codes WHERE person_id IN {ours}",
                (person_id, secret),
            ),
            *(
                SqlStatement(
                    "INSERT INTO console_recovery_codes (person_id, code_hash) SELECT id, "
                    f"CAST(? AS VARCHAR(64)) FROM console_people WHERE id IN {ours} "
                    "ON CONFLICT DO NOTHING",
                    (code_hash, person_id, secret),
                )
                for code_hash in code_hashes
            ),
        )
        return bool(results[0])

    async def remove_second_factor(self, person_id: int) -> None:
        """Remove the second factor and its recovery codes."""
        await self._database.write(
            SqlStatement(
                "UPDATE console_people SET totp_secret = '', totp_pending = '', totp_step = 0 "
                "WHERE id = ?",
                (person_id,),
            ),
            SqlStatement("DELETE FROM console_recovery_codes WHERE person_id = ?", (person_id,)),
        )

    async def use_step(self, person_id: int, step: int) -> bool:
        """Mark the code of a time step, and all older codes, as used. Returns False if the code of
        this step or of a later step was used before. If two calls are made at the same time, only
        one succeeds."""
        return await self._changed(
            "UPDATE console_people SET totp_step = ? WHERE id = ? AND totp_step < ?",
            step,
            person_id,
            step,
        )

    async def use_recovery_code(self, person_id: int, code_hash: str) -> bool:
        """Use a recovery code up. Returns False if the person has no such code."""
        return await self._changed(
            "DELETE FROM console_recovery_codes WHERE person_id = ? AND code_hash = ?",
            person_id,
            code_hash,
        )

    async def recovery_codes(self, person_id: int) -> int:
        """Count the recovery codes that a person has left."""
        rows = await self._database.read(
            "SELECT COUNT(*) AS n FROM console_recovery_codes WHERE person_id = ?", person_id
        )
        return int(rows[0]["n"])

    async def _first(self, condition: str, *values: str | int) -> ConsolePerson | None:
        rows = await self._database.read(
            f"SELECT {COLUMNS} FROM console_people p WHERE {condition}", *values
        )
        return person_of(rows[0]) if rows else None

    async def _changed(self, sql: str, *values: str | int) -> bool:
        (rows,) = await self._database.write(SqlStatement(f"{sql} RETURNING id", values))
        return bool(rows)


def person_of(row: Row) -> ConsolePerson:
    """Make a person from a row with the columns `COLUMNS`."""
    return ConsolePerson(
        person_id=row["person_id"],
        name=row["name"],
        role=row["role"],
        state=PersonState(row["state"]),
        created=row["created"],
        password_hash=row["password_hash"],
        totp_secret=row["totp_secret"],
        totp_pending=row["totp_pending"],
        totp_step=row["totp_step"],
    )
