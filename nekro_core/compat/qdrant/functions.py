"""The functions by which plugins get the bot's vector store."""

from dataclasses import dataclass

from nekro_core.compat.qdrant.client import AsyncQdrantClient
from nekro_core.plugins.authoring.current import NoCurrentBot, current_services


@dataclass(frozen=True, slots=True)
class QdrantConfig:
    """Where the vector store is: in a folder of the bot, without a server.

    Attributes:
        path: The folder.
        url: Empty: there is no server.
        api_key: Empty, for the same reason.
        timeout: Seconds; it has no effect here.
    """

    path: str
    url: str = ""
    api_key: str = ""
    timeout: int = 30


async def get_qdrant_client() -> AsyncQdrantClient:
    """Get the bot's vector store. All plugins share it: name collections by
    `NekroPlugin.get_vector_collection_name`, and do not close it.

    Returns:
        The client, the same for every caller.

    Raises:
        NoCurrentBot: The calling code does not run for a bot, or the bot has no vector store.
    """
    home = current_services().vectors
    if home is None:
        raise NoCurrentBot("this bot has no vector store")
    client: AsyncQdrantClient = await home.client()
    return client


def get_qdrant_config() -> QdrantConfig:
    """Tell where the vector store is. Raises `NoCurrentBot` if the calling code does not run for a
    bot.

    Returns:
        The folder of the store; the other fields are there because plugins read them.
    """
    return QdrantConfig(path=str(current_services().data_dir / "vectors"))
