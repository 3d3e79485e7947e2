"""Asks, for a message in a group in which the bot follows the talk, whether its author goes on
talking to the bot."""

from loguru import logger

from nekro_core.agent.participation.followed_chats import FollowedChats
from nekro_core.agent.participation.verdict import FollowVerdict, TalkSign
from nekro_core.agent.session.services import SessionServices
from nekro_core.agent.session.trigger import called_name
from nekro_core.chat import Author, ChatKind, Record
from nekro_core.policy.participation import Participation
from nekro_core.store import StoreError


async def follow_message(
    record: Record, services: SessionServices, chats: FollowedChats
) -> FollowVerdict | None:
    """Return whether the author of a message goes on talking to the bot. Returns None if the chat
    is not followed, or if the message mentions or names the bot and needs no such decision. If the
    store cannot be read, there is no decision either, and the message is not answered."""
    key, policies = record.chat_key, services.policies
    policy = policies.of(key)
    if (
        policy.trigger.participation.mode is Participation.MENTIONED
        or key.kind is ChatKind.PRIVATE
        or record.author is not Author.PERSON
    ):
        return None

    def calls_bot(said: Record) -> bool:
        return bool(called_name(said, policy.names))

    if record.to_bot or calls_bot(record):
        return None
    if called_name(record, policies.names_of_other_accounts(key)):
        # Another account of this bot is meant. It is in the same group and answers itself.
        return FollowVerdict(goes_on=False, signs=(TalkSign.NAMES_OTHER,))
    try:
        return await chats.judge(record, calls_bot)
    except StoreError as error:
        logger.warning("{}: message {} is not followed: {}", key, record.seq, error)
        return None
