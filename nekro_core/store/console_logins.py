"""Stores the sessions of browsers and the API tokens of the console's people."""

from dataclasses import dataclass

from nekro_core.store.console_people import COLUMNS, ConsolePerson, person_of
from nekro_core.store.database import Database, Row, SqlStatement

USED_EVERY_S = 60.0
"""The time of the last use of a session or token is written at most once in this many seconds. So a
page that makes many requests causes only one write a minute."""
MOST_SESSIONS = 50
"""Maximum number of sessions of one person. A further login ends the session that was used least
recently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSession:
    """A browser that is logged in. Times are seconds since 1970. ``address`` and ``user_agent``
    come from the request of the login."""

    session_id: int
    person_id: int
    created: float
    last_used: float
    expires: float
    address: str
    user_agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleToken:
    """Describes a token of the HTTP API. It does not contain the token itself. Times are seconds
    since 1970; ``expires`` and ``last_used`` are 0 for never.

    Attributes:
        token_id: The token's number.
        person_id: The person who made it.
        prefix: The beginning of the token, by which people recognize it.
        name: What the person called it.
        scopes: What a program with the token may do, such as ``turns:read``.
        created: When it was made.
        expires: When it stops working.
        last_used: When it was last used, exact to a minute.
    """

    token_id: int
    person_id: int
    prefix: str
    name: str
    scopes: frozenset[str]
    created: float
    expires: float
    last_used: float


class ConsoleSessionRepository:
    """The browsers that are logged in. Times are seconds since 1970."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self,
        *,
        person_id: int,
        session_hash: str,
        created: float,
        expires: float,
        address: str,
        user_agent: str,
        replaced: str = "",
    ) -> bool:
        """Add a session. Delete the session with the hash ``replaced``, all expired sessions, and
        the person's least recently used sessions above `MOST_SESSIONS`. Returns False if the person
        may not log in."""
        added, *_ = await self._database.write(
            SqlStatement(
                "INSERT INTO console_sessions (person_id, session_hash, created, last_used, "
                "expires, address, user_agent) SELECT id, CAST(? AS VARCHAR(64)), "
                "CAST(? AS DOUBLE PRECISION), CAST(? AS DOUBLE PRECISION), "
                "CAST(? AS DOUBLE PRECISION), CAST(? AS VARCHAR(64)), CAST(? AS VARCHAR(256)) "
                "FROM console_people WHERE id = ? AND state = 'active' RETURNING id",
                (
                    session_hash,
                    created,
                    created,
                    expires,
                    address[:64],
                    user_agent[:256],
                    person_id,
                ),
            ),
            SqlStatement(
                "DELETE FROM console_sessions WHERE session_hash = ? OR expires <= ?",
                (replaced, created),
            ),
            SqlStatement(
                "DELETE FROM console_sessions WHERE person_id = ? AND id NOT IN (SELECT id FROM "
                "console_sessions WHERE person_id = ? ORDER BY last_used DESC, id DESC LIMIT ?)",
                (person_id, person_id, MOST_SESSIONS),
            ),
        )
        return bool(added)

    async def find(
        self, session_hash: str, now: float
    ) -> tuple[ConsoleSession, ConsolePerson] | None:
        """Get a session and its person, and store ``now`` as the time of the last use. None if the
        session does not exist or has expired, or if the person is not active."""
        rows = await self._database.read(
            "SELECT s.id AS session_id, s.created AS began, s.last_used, s.expires, s.address, "
            f"s.user_agent, {COLUMNS} FROM console_sessions s JOIN console_people p "
            "ON p.id = s.person_id WHERE s.session_hash = ? AND s.expires > ? "
            "AND p.state = 'active'",
            session_hash,
            now,
        )
        if not rows:
            return None
        session = _session_of(rows[0])
        if now - session.last_used >= USED_EVERY_S:
            await self._database.write(
                SqlStatement(
                    "UPDATE console_sessions SET last_used = ? WHERE id = ?",
                    (now, session.session_id),
                )
            )
        return session, person_of(rows[0])

    async def of(self, person_id: int, now: float) -> list[ConsoleSession]:
        """Get a person's sessions, the most recently used first."""
        rows = await self._database.read(
            "SELECT id AS session_id, person_id, created AS began, last_used, expires, address, "
            "user_agent FROM console_sessions WHERE person_id = ? AND expires > ? "
            "ORDER BY last_used DESC, id DESC",
            person_id,
            now,
        )
        return [_session_of(row) for row in rows]

    async def owner_of(self, session_id: int) -> int | None:
        """Get the number of the person of a session; None if there is no such session."""
        rows = await self._database.read(
            "SELECT person_id FROM console_sessions WHERE id = ?", session_id
        )
        return int(rows[0]["person_id"]) if rows else None

    async def end(self, session_id: int) -> bool:
        """End a session. Returns False if there is no such session."""
        (rows,) = await self._database.write(
            SqlStatement("DELETE FROM console_sessions WHERE id = ? RETURNING id", (session_id,))
        )
        return bool(rows)

    async def end_all(self, person_id: int, *, but: int = 0) -> int:
        """End all sessions of a person except the one with the number ``but``; 0 excepts none.
        Returns how many were ended."""
        (rows,) = await self._database.write(
            SqlStatement(
                "DELETE FROM console_sessions WHERE person_id = ? AND id <> ? RETURNING id",
                (person_id, but),
            )
        )
        return len(rows)


class ConsoleTokenRepository:
    """The tokens of the HTTP API. Times are seconds since 1970."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self,
        *,
        person_id: int,
        token_hash: str,
        prefix: str,
        name: str,
        scopes: frozenset[str],
        created: float,
        expires: float,
    ) -> ConsoleToken:
        """Add a token. ``expires`` is 0 if the token never expires."""
        (rows,) = await self._database.write(
            SqlStatement(
                "INSERT INTO console_tokens (person_id, token_hash, prefix, name, scopes, created, "
                "expires, last_used) VALUES (?, ?, ?, ?, ?, ?, ?, 0) RETURNING id",
                (person_id, token_hash, prefix, name, " ".join(sorted(scopes)), created, expires),
            )
        )
        return ConsoleToken(
            token_id=rows[0]["id"],
            person_id=person_id,
            prefix=prefix,
            name=name,
            scopes=scopes,
            created=created,
            expires=expires,
            last_used=0,
        )

    async def find(self, token_hash: str, now: float) -> tuple[ConsoleToken, ConsolePerson] | None:
        """Get a token and its person, and store ``now`` as the time of the last use. None if the
        token does not exist or has expired, or if the person is not active."""
        rows = await self._database.read(
            "SELECT t.id AS token_id, t.prefix, t.name AS token_name, t.scopes, "
            f"t.created AS began, t.expires, t.last_used, {COLUMNS} FROM console_tokens t "
            "JOIN console_people p ON p.id = t.person_id WHERE t.token_hash = ? "
            "AND (t.expires = 0 OR t.expires > ?) AND p.state = 'active'",
            token_hash,
            now,
        )
        if not rows:
            return None
        token = _token_of(rows[0])
        if now - token.last_used >= USED_EVERY_S:
            await self._database.write(
                SqlStatement(
                    "UPDATE console_tokens SET last_used = ? WHERE id = ?", (now, token.token_id)
                )
            )
        return token, person_of(rows[0])

    async def all(self) -> list[ConsoleToken]:
        """Get the tokens of all people, oldest first."""
        rows = await self._database.read(
            "SELECT id AS token_id, person_id, prefix, name AS token_name, scopes, "
            "created AS began, expires, last_used FROM console_tokens ORDER BY id"
        )
        return [_token_of(row) for row in rows]

    async def one(self, token_id: int) -> ConsoleToken | None:
        """Get a token by its number; None if there is no such token."""
        rows = await self._database.read(
            "SELECT id AS token_id, person_id, prefix, name AS token_name, scopes, "
            "created AS began, expires, last_used FROM console_tokens WHERE id = ?",
            token_id,
        )
        return _token_of(rows[0]) if rows else None

    async def revoke(self, token_id: int) -> bool:
        """Delete a token. Returns False if there is no such token."""
        (rows,) = await self._database.write(
            SqlStatement("DELETE FROM console_tokens WHERE id = ? RETURNING id", (token_id,))
        )
        return bool(rows)


def _session_of(row: Row) -> ConsoleSession:
    return ConsoleSession(
        session_id=row["session_id"],
        person_id=row["person_id"],
        created=row["began"],
        last_used=row["last_used"],
        expires=row["expires"],
        address=row["address"],
        user_agent=row["user_agent"],
    )


def _token_of(row: Row) -> ConsoleToken:
    return ConsoleToken(
        token_id=row["token_id"],
        person_id=row["person_id"],
        prefix=row["prefix"],
        name=row["token_name"],
        scopes=frozenset(row["scopes"].split()),
        created=row["began"],
        expires=row["expires"],
        last_used=row["last_used"],
    )
