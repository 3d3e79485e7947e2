"""Sends a message of an operator to several chats."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from nekro_core.chat import ChatKey
from nekro_core.delivery.errors import CannotDo
from nekro_core.delivery.outbound.announcements import (
    FASTEST_PER_MINUTE,
    MOST_CHATS,
    PER_MINUTE,
    TEXT_LENGTH,
    AnnouncedChat,
    Announcements,
    AnnouncementSummary,
)
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change
from nekro_core.operator.errors import NoSuchItem
from nekro_core.operator.roles import AccessRole, Actor

AnnouncementId = Annotated[str, Field(min_length=1, max_length=64)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncementView:
    """An announcement with some of its chats.

    Attributes:
        summary: The announcement and its progress.
        chats: The chats, each with the outcome in this chat.
    """

    summary: AnnouncementSummary
    chats: tuple[AnnouncedChat, ...]


class BroadcastArea(Area):
    """Messages of operators to several chats.

    Args:
        audit: The audit log.
        announcements: The messages.
    """

    name = "broadcast"

    def __init__(self, audit: AuditLog, announcements: Announcements) -> None:
        super().__init__(audit)
        self._announcements = announcements

    @query(role=AccessRole.VIEWER)
    async def listed(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        before: Annotated[str, Field(max_length=64)] = "",
        limit: Annotated[int, Field(ge=1, le=100)] = 20,
    ) -> list[AnnouncementSummary]:
        """List the messages to several chats, newest first, with their progress.

        Args:
            before: The id of a message: list only older messages.
            limit: The largest number of messages.
        """
        return self._announcements.listed(before=before, limit=limit)

    @query(role=AccessRole.VIEWER)
    async def one(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        announcement_id: AnnouncementId,
        after: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    ) -> AnnouncementView:
        """Get a message to several chats, with the outcome in each chat.

        Args:
            announcement_id: The id of the message.
            after: Leave out this many chats at the beginning.
            limit: The largest number of chats.
        """
        try:
            summary, chats = self._announcements.one(announcement_id)
        except CannotDo as error:
            raise NoSuchItem(str(error)) from error
        return AnnouncementView(summary=summary, chats=chats[after : after + limit])

    @action(role=AccessRole.OPERATOR)
    async def start(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        text: Annotated[str, Field(min_length=1, max_length=TEXT_LENGTH)],
        chats: Annotated[tuple[ChatKey, ...], Field(min_length=1, max_length=MOST_CHATS)],
        per_minute: Annotated[float, Field(gt=0, le=FASTEST_PER_MINUTE)] = PER_MINUTE,
    ) -> Change[AnnouncementSummary]:
        """Begin to send a text to several chats.

        Args:
            text: The text.
            chats: The chats.
            per_minute: How many chats get the message in a minute. Platforms block accounts that
                write to many chats at once.
        """
        begun = await self._announcements.start(text, chats, per_minute=per_minute)
        return Change(result=begun, subject=begun.announcement_id, new=f"{begun.chats} chats")

    @action(role=AccessRole.OPERATOR)
    async def cancel(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        announcement_id: AnnouncementId,
    ) -> Change[AnnouncementSummary]:
        """Stop sending a message to several chats. Chats that already got it keep it; `resume`
        sends it to the remaining chats.

        Args:
            announcement_id: The id of the message.
        """
        stopped = await self._announcements.cancel(announcement_id)
        return Change(result=stopped, subject=announcement_id, new=stopped.state)

    @action(role=AccessRole.OPERATOR)
    async def resume(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        announcement_id: AnnouncementId,
    ) -> Change[AnnouncementSummary]:
        """Continue to send a message to several chats that was cancelled, or that a restart
        interrupted. No chat gets the message twice.

        Args:
            announcement_id: The id of the message.
        """
        going = await self._announcements.resume(announcement_id)
        return Change(result=going, subject=announcement_id, new=going.state)
