"""The key-value store of one plugin."""

from nekro_core.plugins.authoring.services import PluginDataStore


class PluginStore:
    """Texts that a plugin keeps, by chat, person and key; an empty chat or person means all."""

    def __init__(self, keeper: PluginDataStore, plugin: str) -> None:
        self._keeper = keeper
        self._plugin = plugin

    async def get(self, chat_key: str = "", user_key: str = "", store_key: str = "") -> str | None:
        """The text kept there, or nothing."""
        return await self._keeper.get(
            self._plugin, chat_key=chat_key, user_key=user_key, store_key=store_key
        )

    async def set(
        self, chat_key: str = "", user_key: str = "", store_key: str = "", value: str = ""
    ) -> int:
        """Keep a text: 0 where it is new, 1 where it replaced one. Raises `TypeError` for what is
        no text: encode it, as JSON for example."""
        if not isinstance(value, str):
            raise TypeError(f"the store keeps str, got {type(value).__name__}: use json.dumps")
        return await self._keeper.set(
            self._plugin, value, chat_key=chat_key, user_key=user_key, store_key=store_key
        )

    async def delete(self, chat_key: str = "", user_key: str = "", store_key: str = "") -> int:
        """Forget a text: 0 where there was one, 1 where there was none."""
        return await self._keeper.delete(
            self._plugin, chat_key=chat_key, user_key=user_key, store_key=store_key
        )
