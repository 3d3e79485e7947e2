"""Requests of people to be a friend of the bot's account or to join a group."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum


class ContactRequestKind(StrEnum):
    """What somebody asks for."""

    FRIEND = "friend"
    """A person asks to be a friend of the bot's account."""
    GROUP_JOIN = "group_join"
    """A person asks to join a group in which the bot's account is an administrator."""
    GROUP_INVITE = "group_invite"
    """A person invites the bot's account into a group."""


class ContactRequestState(StrEnum):
    """The state of a request."""

    OPEN = "open"
    """No operator has answered the request through the bot."""
    APPROVED = "approved"
    REFUSED = "refused"
    DISMISSED = "dismissed"
    """An operator removed the request from the list without answering it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactRequest:
    """A request of a person.

    Attributes:
        request_id: The bot's id of the request.
        adapter: The adapter's name.
        account: The platform's id of the bot's account.
        kind: What the person asks for.
        user_id: The platform's id of the person.
        user_name: The person's name; empty if it is not known.
        group_id: The platform's id of the group; empty for a friend request.
        text: What the person wrote with the request.
        time: When it came, in seconds since 1970.
        handle: The platform's id of the request. The answer to the request must contain this id.
        state: The state of the request.
        answered_at: When an operator answered or dismissed the request, in seconds since 1970; None
            if it is open.
        reason: The reason that the operator gave for a refusal.
        problem: Why the last answer did not reach the platform; empty if it did.
    """

    request_id: str
    adapter: str
    account: str
    kind: ContactRequestKind
    user_id: str
    time: float
    handle: str
    user_name: str = ""
    group_id: str = ""
    text: str = ""
    state: ContactRequestState = ContactRequestState.OPEN
    answered_at: float | None = None
    reason: str = ""
    problem: str = ""


def request_id_of(adapter: str, account: str, handle: str) -> str:
    """Make the bot's id of a request. If the platform reports a request twice, the id is the same.

    Args:
        adapter: The adapter's name.
        account: The platform's id of the bot's account.
        handle: The platform's id of the request.

    Returns:
        The id.
    """
    return hashlib.sha256(f"{adapter}\0{account}\0{handle}".encode()).hexdigest()[:16]
