"""Remembers what the bot does once after an upgrade. Migrations write the notes."""

from nekro_core.store.database import Database, SqlStatement

PARTICIPATION = "participation"
"""The bot was used before it could follow the talk of groups: it goes on answering only those who
mention it, until the operator says otherwise."""


class UpgradeNotes:
    """The notes that are left."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def has(self, name: str) -> bool:
        """Whether a note is left."""
        return bool(
            await self._database.read("SELECT 1 AS one FROM upgrade_notes WHERE name = ?", name)
        )

    async def remove(self, name: str) -> None:
        """Remove a note: what it asks for is done. Raises `StoreUnavailable`."""
        await self._database.write(
            SqlStatement("DELETE FROM upgrade_notes WHERE name = ?", (name,))
        )
