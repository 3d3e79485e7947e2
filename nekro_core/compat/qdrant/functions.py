"""The functions that give the bot's vector store to plugins."""

from dataclasses import dataclass

from nekro_core.compat.qdrant.client import STORE_URL, AsyncQdrantClient
from nekro_core.plugins.authoring.current import NoCurrentBot, current_services


@dataclass(frozen=True, slots=True)
class QdrantConfig:
    """Where the vector store is. It is in a folder of the bot and uses no server.

    Attributes:
        path: The folder.
        url: An address that the clients of this package recognize as the bot's store.
        api_key: Always empty, because there is no server.
        timeout: A number of seconds. It has no effect.
    """

    path: str
    url: str = STORE_URL
    api_key: str = ""
    timeout: int = 30


async def get_qdrant_client() -> AsyncQdrantClient:
    """Get the bot's vector store. All plugins share this store, so do not close it, and get the
    names of collections from `NekroPlugin.get_vector_collection_name`.

    Returns:
        The client. Every caller gets the same object.

    Raises:
        NoCurrentBot: The calling code does not run for a bot, or the bot has no vector store.
    """
    home = current_services().vectors
    if home is None:
        raise NoCurrentBot("this bot has no vector store")
    client: AsyncQdrantClient = await home.client()
    return client


def get_qdrant_config() -> QdrantConfig:
    """Get the folder of the bot's vector store. Raises `NoCurrentBot` if the calling code does not
    run for a bot.

    Returns:
        The folder, and fields with default values that plugins expect.
    """
    return QdrantConfig(path=str(current_services().data_dir / "vectors"))
