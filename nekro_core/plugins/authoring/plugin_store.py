"""The key-value store of one plugin."""

from nekro_core.plugins.authoring.services import PluginDataStore


class PluginStore:
    """Texts that a plugin keeps, by chat, person and key; an empty chat or person means all.

    Args:
        keeper: Where texts are kept.
        plugin: The plugin's key.
    """

    def __init__(self, keeper: PluginDataStore, plugin: str) -> None:
        self._keeper = keeper
        self._plugin = plugin

    async def get(self, chat_key: str = "", user_key: str = "", store_key: str = "") -> str | None:
        """Get a text.

        Args:
            chat_key: The chat; empty for all.
            user_key: The person; empty for all.
            store_key: The name of the text.

        Returns:
            The text, or None where there is none.
        """
        return await self._keeper.get(
            self._plugin, chat_key=chat_key, user_key=user_key, store_key=store_key
        )

    async def set(
        self, chat_key: str = "", user_key: str = "", store_key: str = "", value: str = ""
    ) -> int:
        """Keep a text.

        Args:
            chat_key: The chat; empty for all.
            user_key: The person; empty for all.
            store_key: The name of the text.
            value: The text. Encode what is none, as JSON for example.

        Returns:
            0 where it is new, 1 where it replaced one.

        Raises:
            TypeError: The value is no text.
        """
        if not isinstance(value, str):
            raise TypeError(f"the store keeps str, got {type(value).__name__}: use json.dumps")
        return await self._keeper.set(
            self._plugin, value, chat_key=chat_key, user_key=user_key, store_key=store_key
        )

    async def delete(self, chat_key: str = "", user_key: str = "", store_key: str = "") -> int:
        """Forget a text.

        Args:
            chat_key: The chat; empty for all.
            user_key: The person; empty for all.
            store_key: The name of the text.

        Returns:
            0 where there was one, 1 where there was none.
        """
        return await self._keeper.delete(
            self._plugin, chat_key=chat_key, user_key=user_key, store_key=store_key
        )
