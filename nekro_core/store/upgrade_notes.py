"""Reads and removes the notes about what the bot must do once after an upgrade. Migrations write
these notes."""

from nekro_core.store.database import Database, SqlStatement

PARTICIPATION = "participation"
"""The note of a bot that was used before it could follow conversations in groups. Such a bot still
answers only those who mention it, until the operator changes this setting."""


class UpgradeNotes:
    """The notes about things that the bot has not done yet."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def has(self, name: str) -> bool:
        """Return True if there is a note with this name."""
        return bool(
            await self._database.read("SELECT 1 AS one FROM upgrade_notes WHERE name = ?", name)
        )

    async def remove(self, name: str) -> None:
        """Remove a note. The bot has done what the note asks for. Raises `StoreUnavailable`."""
        await self._database.write(
            SqlStatement("DELETE FROM upgrade_notes WHERE name = ?", (name,))
        )
