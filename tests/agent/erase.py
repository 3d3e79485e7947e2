"""Erases a person in the bot of a test."""

from nekro_core.chat import ChatKey
from tests.agent.bot import Bot


async def erase(bot: Bot, chat: ChatKey, user: str) -> None:
    """Erase a person as ``/erase`` does, without plugins."""
    assert bot.sessions._erasing is not None
    erasing = bot.sessions._erasing
    person = erasing.person(chat, user)

    async def stop(_chat: ChatKey) -> None:
        return None

    async def plugins() -> tuple[int, list[str]]:
        return 0, []

    await erasing.erase(person, stop=stop, drop=lambda _chat, _user: None, plugins=plugins)
