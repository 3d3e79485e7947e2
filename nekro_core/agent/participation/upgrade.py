"""Keeps the behaviour of a bot in groups after an upgrade from a version that could not follow the
talk of groups."""

from loguru import logger

from nekro_core.policy import InvalidOverride, PolicyFile
from nekro_core.policy.participation import Participation
from nekro_core.store import Store, StoreError
from nekro_core.store.upgrade_notes import PARTICIPATION
from nekro_core.system.documents import DocumentError


async def keep_participation(store: Store, conduct: PolicyFile) -> None:
    """After an upgrade, write into ``conduct.toml`` that groups are answered only when the bot is
    mentioned, and tell the operator once. Does nothing in a new bot. If the operator has set
    ``participation``, the setting stays.

    Args:
        store: The open database. After an upgrade it contains a note for this function.
        conduct: The operator's overrides, already read from ``conduct.toml``.
    """
    try:
        if not await store.upgrade_notes.has(PARTICIPATION):
            return
        if conduct.book.bot.participation is None:
            await conduct.put(("bot",), "participation", Participation.MENTIONED.value)
            logger.warning(
                "new in this version: in groups the bot can also answer people who go on talking "
                "to it without a mention. New bots do; yours answers as before, because "
                'conduct.toml now says participation = "mentioned" under [bot]. To try it in one '
                "group, write /participation follows there; see docs/operating.md"
            )
        await store.upgrade_notes.remove(PARTICIPATION)
    except (StoreError, InvalidOverride, DocumentError) as error:
        # The note stays in the database, so the next start tries again.
        logger.error("conduct.toml cannot be told that groups are answered as before: {}", error)
