"""Reads invitations into rooms, and requests to join rooms ("knocks"). Answers both."""

import time
from collections.abc import Sequence
from urllib.parse import quote

from nekro_core.api.adapter import (
    CannotDo,
    ContactRequest,
    ContactRequestKind,
    request_id_of,
)

from .homeserver import Homeserver, HomeserverError
from .incoming import Json, table, words
from .rooms import Rooms

NAME = "matrix"
ANSWER_S = 15.0
"""Time limit for the homeserver's call, in seconds."""
_DIRECT, _ROOM = "direct", "room"


def read_invitation(
    room_id: str, state: Sequence[Json], account: str, since: str
) -> tuple[ContactRequest, bool]:
    """Read an invitation.

    Args:
        room_id: The room.
        state: The parts of the room's state that the server shows to an invited person.
        account: The invited account.
        since: The position after which the server reports the invitation. It is a part of the
            request's id, because invitations have no id, and the same room may invite again after
            a refusal.

    Returns:
        The invitation, and whether the room is a private chat with the inviting person.
    """
    of_type = {(words(each.get("type")), words(each.get("state_key"))): each for each in state}
    member = of_type.get(("m.room.member", account), {})
    content, inviter = table(member.get("content")), words(member.get("sender"))
    direct = content.get("is_direct") is True
    inviting = table(of_type.get(("m.room.member", inviter), {}).get("content"))
    room_name = words(table(of_type.get(("m.room.name", ""), {}).get("content")).get("name"))
    said = [room_name, words(content.get("reason"))]
    kind = ContactRequestKind.GROUP_INVITE
    request = ContactRequest(
        request_id=request_id_of(NAME, account, f"{kind}:{room_id}:{since}"),
        adapter=NAME,
        account=account,
        kind=kind,
        user_id=inviter,
        user_name=words(inviting.get("displayname")),
        group_id=room_id,
        text="\n".join(filter(None, said)),
        time=time.time(),
        handle=_DIRECT if direct else _ROOM,
    )
    return request, direct


def read_knock(room_id: str, event: Json, account: str) -> ContactRequest | None:
    """Read the request of a person to join a room.

    Args:
        room_id: The room.
        event: An event of the room.
        account: The account that is in the room.

    Returns:
        The request; None if the event is not such a request.
    """
    content = table(event.get("content"))
    person, event_id = words(event.get("state_key")), words(event.get("event_id"))
    knocks = event.get("type") == "m.room.member" and content.get("membership") == "knock"
    if not knocks or not person or not event_id:
        return None
    at = event.get("origin_server_ts")
    kind = ContactRequestKind.GROUP_JOIN
    return ContactRequest(
        request_id=request_id_of(NAME, account, f"{kind}:{event_id}"),
        adapter=NAME,
        account=account,
        kind=kind,
        user_id=person,
        user_name=words(content.get("displayname")),
        group_id=room_id,
        text=words(content.get("reason")),
        time=at / 1000 if isinstance(at, int) else time.time(),
        handle=event_id,
    )


async def answer(
    request: ContactRequest, server: Homeserver, rooms: Rooms, *, approve: bool, reason: str
) -> None:
    """Join or leave the room, or invite or remove the person.

    Args:
        request: The request.
        server: The homeserver of the account.
        rooms: The account's rooms.
        approve: Whether the request is approved.
        reason: The text about a refusal that the room's members read; may be empty.

    Raises:
        CannotDo: The homeserver did not accept the answer; the text says why.
    """
    room = quote(request.group_id, safe="")
    said = {"reason": reason} if reason else {}
    if request.kind is ContactRequestKind.GROUP_INVITE:
        path, body = (f"join/{room}", {}) if approve else (f"rooms/{room}/leave", said)
    else:
        path = f"rooms/{room}/{'invite' if approve else 'kick'}"
        body = {"user_id": request.user_id} | ({} if approve else said)
    try:
        await server.call("POST", f"client/v3/{path}", body=body, seconds=ANSWER_S)
        if approve and request.handle == _DIRECT:
            await rooms.add_direct(request.user_id, request.group_id)
    except HomeserverError as error:
        raise CannotDo(f"{request.account}: {error}") from error
