"""A plugin makes its own client for the vector store."""

import pytest

from nekro_core.compat.qdrant.client import AsyncQdrantClient, QdrantClient
from nekro_core.store.vectors import VectorError
from tests.compat.nekro_agent.conftest import OpenBot


async def test_a_client_made_from_the_configured_address_reaches_the_bots_store(
    bot_with: OpenBot,
) -> None:
    async with bot_with("own_client") as bot:
        assert await bot.call("remember_picture", 1, "cat") == 1
        assert await bot.call("remember_picture", 9, "dog") == 2
        assert await bot.call("nearest_picture", 8) == "dog"


@pytest.mark.parametrize("kind", [AsyncQdrantClient, QdrantClient])
def test_a_client_for_another_server_is_refused(kind: type) -> None:
    for place in ({"url": "http://127.0.0.1:6333"}, {"host": "qdrant"}, {"location": "http://q"}):
        with pytest.raises(VectorError, match=r"get_qdrant_client\(\)"):
            kind(**place)
