"""Hands requests of people, such as to join a group, to the host."""

from dataclasses import dataclass

from loguru import logger

from nekro_core.api.adapter import ContactRequest, ContactRequestKind, Host, request_id_of

LONGEST_HANDLE = 1000
"""Maximum number of characters of a handle. A longer handle cannot come from the platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRequest:
    """A request as a platform's event describes it.

    Attributes:
        kind: What the person asks for.
        user_id: The person's id in events.
        handle: The data with which the request can be answered.
        user_name: The person's name; may be empty.
        group_id: The group's id; empty for a friend request.
        text: What the person wrote in the request.
        time: When the request arrived, in seconds since 1970.
    """

    kind: ContactRequestKind
    user_id: str
    handle: str
    user_name: str = ""
    group_id: str = ""
    text: str = ""
    time: float


async def store_request(host: Host, adapter: str, account: str, asked: PlatformRequest) -> None:
    """Hand a request to the host, so that an operator can answer it. If it cannot be stored, this
    is logged.

    Args:
        host: The host.
        adapter: The adapter's name.
        account: The account that received it.
        asked: The request. Its ``user_id`` is the id that the rest of the bot uses.
    """
    if not 0 < len(asked.handle) <= LONGEST_HANDLE:
        logger.info("{}: a request without a usable id is ignored", adapter)
        return
    request = ContactRequest(
        request_id=request_id_of(adapter, account, f"{asked.kind}:{asked.handle}"),
        adapter=adapter,
        account=account,
        kind=asked.kind,
        user_id=asked.user_id,
        user_name=asked.user_name,
        group_id=asked.group_id,
        text=asked.text,
        time=asked.time,
        handle=asked.handle,
    )
    try:
        await host.receive_request(request)
    except OSError as error:
        logger.error("{}: a request cannot be stored: {}", adapter, error)
