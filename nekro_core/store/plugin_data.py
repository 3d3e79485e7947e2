"""Stores the data of plugins."""

from nekro_core.chat import MAX_KEY_LENGTH
from nekro_core.store.database import Database, SqlStatement
from nekro_core.store.errors import ValueTooLarge
from nekro_core.store.limits import MAX_ID

_WHERE = "WHERE plugin = ? AND chat_key = ? AND user_key = ? AND store_key = ?"


class PluginDataRepository:
    """Stores texts by plugin, chat, person and key. If the chat is empty, the text is for all
    chats. If the person is empty, it is for all persons."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(
        self, plugin: str, *, chat_key: str = "", user_key: str = "", store_key: str = ""
    ) -> str | None:
        """Get the text of a key; None if there is none."""
        key = _key(plugin, chat_key, user_key, store_key)
        rows = await self._database.read(f"SELECT value FROM plugin_data {_WHERE}", *key)
        return str(rows[0]["value"]) if rows else None

    async def set(
        self,
        plugin: str,
        value: str,
        *,
        chat_key: str = "",
        user_key: str = "",
        store_key: str = "",
    ) -> int:
        """Store a text. Returns 0 if the key is new, and 1 if the text replaced another text. This
        is correct even if several callers write at the same time."""
        key = _key(plugin, chat_key, user_key, store_key)
        created, _ = await self._database.write(
            SqlStatement(
                "INSERT INTO plugin_data (plugin, chat_key, user_key, store_key, value) "
                "VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
                (*key, value),
            ),
            SqlStatement(f"UPDATE plugin_data SET value = ? {_WHERE}", (value, *key)),
        )
        return 0 if created else 1

    async def delete(
        self, plugin: str, *, chat_key: str = "", user_key: str = "", store_key: str = ""
    ) -> int:
        """Delete a text. Returns 0 if the text was deleted. Returns 1 if there was no such text."""
        key = _key(plugin, chat_key, user_key, store_key)
        ((*gone,),) = await self._database.write(
            SqlStatement(f"DELETE FROM plugin_data {_WHERE} RETURNING id", key)
        )
        return 0 if gone else 1


def _key(plugin: str, chat_key: str, user_key: str, store_key: str) -> tuple[str, str, str, str]:
    bounds = {
        "plugin": (plugin, 128),
        "chat_key": (chat_key, MAX_KEY_LENGTH),
        "user_key": (user_key, MAX_ID),
        "store_key": (store_key, MAX_ID),
    }
    for name, (text, most) in bounds.items():
        if len(text) > most:
            raise ValueTooLarge(f"{name} of {len(text)} characters: at most {most}")
    return plugin, chat_key, user_key, store_key
