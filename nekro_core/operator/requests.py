"""Answers friend and group requests, and bans people."""

from typing import Annotated

from pydantic import Field

from nekro_core.delivery.contact_request import ContactRequest, ContactRequestState
from nekro_core.delivery.platforms.requests import ContactRequests
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.policy.ban_list import BanList, BannedPerson

_OPEN = (ContactRequestState.OPEN,)


class Requests(Area):
    """Friend and group requests, and the list of banned people.

    Args:
        audit: The audit log.
        requests: The requests.
        bans: The banned people.
    """

    name = "requests"

    def __init__(self, audit: AuditLog, requests: ContactRequests, bans: BanList) -> None:
        super().__init__(audit)
        self._requests = requests
        self._bans = bans

    @query(role=AccessRole.VIEWER)
    async def listed(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        states: tuple[ContactRequestState, ...] = _OPEN,
        before: str = "",
        limit: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> list[ContactRequest]:
        """List friend and group requests, newest first.

        Args:
            states: Only requests in these states. By default those that wait for an answer.
            before: The id of a request: list only older requests.
            limit: The largest number of requests.
        """
        return self._requests.listed(states, before=before, limit=limit)

    @action(role=AccessRole.OPERATOR)
    async def answer(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        request_id: Annotated[str, Field(min_length=1, max_length=64)],
        approve: bool,
        reason: Annotated[str, Field(max_length=200)] = "",
    ) -> Change[ContactRequest]:
        """Approve or refuse a request on the platform.

        Args:
            request_id: The id of the request.
            approve: Whether it is approved.
            reason: What a refused person reads, if the platform shows it.
        """
        request = await self._requests.answer(request_id, approve=approve, reason=reason)
        subject = f"{request.adapter}:{request.user_id}"
        return Change(result=request, subject=subject, new=request.state)

    @action(role=AccessRole.OPERATOR)
    async def dismiss(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        request_id: Annotated[str, Field(min_length=1, max_length=64)],
    ) -> Change[ContactRequest]:
        """Remove a request from the list without answering it, for example because it was answered
        in the platform's own program.

        Args:
            request_id: The id of the request.
        """
        request = await self._requests.dismiss(request_id)
        undo = UndoCall(action="requests.reopen", parameters={"request_id": request_id})
        subject = f"{request.adapter}:{request.user_id}"
        return Change(result=request, subject=subject, new=request.state, undo=undo)

    @action(role=AccessRole.OPERATOR)
    async def reopen(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        request_id: Annotated[str, Field(min_length=1, max_length=64)],
    ) -> Change[ContactRequest]:
        """Put a dismissed request on the list again.

        Args:
            request_id: The id of the request.
        """
        request = await self._requests.reopen(request_id)
        undo = UndoCall(action="requests.dismiss", parameters={"request_id": request_id})
        subject = f"{request.adapter}:{request.user_id}"
        return Change(result=request, subject=subject, new=request.state, undo=undo)

    @query(role=AccessRole.VIEWER)
    async def platforms(self, actor: Actor) -> dict[str, bool]:  # noqa: ARG002
        """List the platforms by the names of their adapters, and say whether each passes requests
        to the bot."""
        return self._requests.platforms()

    @query(role=AccessRole.VIEWER)
    async def banned(self, actor: Actor) -> list[BannedPerson]:  # noqa: ARG002
        """List the banned people."""
        return list(self._bans.listed())

    @action(role=AccessRole.OPERATOR)
    async def ban(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        place: Annotated[str, Field(min_length=1, max_length=100)],
        user_id: Annotated[str, Field(min_length=1, max_length=200)],
    ) -> Change[bool]:
        """Ignore a person in all chats of a platform. The person's messages are stored but never
        answered.

        Args:
            place: The adapter's name, for all accounts of the platform; or the instance of one
                account.
            user_id: The platform's id of the person.
        """
        new = await self._bans.ban(place, user_id)
        undo = UndoCall(action="requests.unban", parameters={"place": place, "user_id": user_id})
        return Change(
            result=new, subject=f"{place}:{user_id}", new="banned", undo=undo if new else None
        )

    @action(role=AccessRole.OPERATOR)
    async def unban(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        place: Annotated[str, Field(min_length=1, max_length=100)],
        user_id: Annotated[str, Field(min_length=1, max_length=200)],
    ) -> Change[bool]:
        """End a ban.

        Args:
            place: The adapter's name, or the instance of one account.
            user_id: The platform's id of the person.
        """
        ended = await self._bans.unban(place, user_id)
        undo = UndoCall(action="requests.ban", parameters={"place": place, "user_id": user_id})
        return Change(
            result=ended, subject=f"{place}:{user_id}", old="banned", undo=undo if ended else None
        )
