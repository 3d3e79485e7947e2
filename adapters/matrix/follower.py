"""Runs the sync loop of one connection. It reads all events in order, and requests the events that
the server left out of an answer."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol
from urllib.parse import quote

import anyio
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.api.adapter import ContactRequest, KeyedQueue, MatcherDecision

from .checkpoint import SyncCheckpoint, SyncPage
from .contact_requests import read_invitation, read_knock
from .homeserver import Homeserver, HomeserverError, HomeserverNotConnected, HomeserverRefused
from .incoming import Json, table, words
from .intake import MESSAGES, MatrixIntake
from .rooms import Rooms

WAIT_S = 30.0
"""Seconds for which the server holds a request open while there are no events."""
GRACE_S = 15.0
"""Seconds that an answer may take beyond `WAIT_S`. After that, the connection counts as lost."""
FIRST_S = 150.0
"""Time limit for the first sync of a new account, in seconds. Its answer describes all rooms."""
EVENTS = 50
"""Maximum number of events of a room in one answer. If there are more, the rest is requested
separately."""
GAP_PAGE = 100
GAP_PAGES = 20
"""Maximum number of pages of missed events that are read for a room. They have 2,000 events. Older
events are not read."""
JOIN_S = 60.0
"""Time limit for joining a room, in seconds. The homeserver asks other servers, which may be
slow."""
JOIN_PAUSES_S = (1.0, 5.0, 15.0)
"""Seconds before each further try to join a room."""


class FollowedAccount(Protocol):
    """The methods of an account that a `Follower` calls."""

    user_id: str

    def connected(self) -> None:
        """Called when the first answer of a connection has arrived."""

    def accepts_invite(self, inviter: str) -> bool:
        """Return True if an invitation by this person must be accepted."""

    def offer(self, room_id: str, event: Json) -> MatcherDecision | None:
        """Let NoneBot's plugins see an event. Return None if there are no such plugins."""

    async def requested(self, request: ContactRequest) -> None:
        """Called when somebody invites the account, or asks to join a room that the account is
        in."""


class Follower:
    """Reads events in a loop. A job in ``tasks`` processes each event. ``bookmark`` counts the jobs
    that are not done."""

    def __init__(
        self,
        account: FollowedAccount,
        server: Homeserver,
        rooms: Rooms,
        intake: MatrixIntake,
        bookmark: SyncCheckpoint,
        tasks: TaskGroup,
    ) -> None:
        self._account = account
        self._server = server
        self._rooms = rooms
        self._intake = intake
        self._bookmark = bookmark
        self._queue = KeyedQueue(tasks)

    async def follow(self) -> None:
        """Read events until cancelled. Raises `HomeserverError`."""
        since, first = self._bookmark.token, True
        while True:
            answer = await self._sync(since, wait=not first)
            page = self._bookmark.page(words(answer.get("next_batch")))
            if first:
                self._account.connected()
            await self._take(answer, page, since, away=first)
            page.closed()
            await self._bookmark.keep()
            since, first = page.token, False

    async def _sync(self, since: str, *, wait: bool) -> Json:
        wait_s = WAIT_S if wait else 0.0
        try:
            answer = await self._server.get(
                "client/v3/sync",
                {"since": since or None, "timeout": int(wait_s * 1000), "filter": _FILTER},
                seconds=wait_s + GRACE_S if since else FIRST_S,
            )
        except HomeserverRefused as error:
            if since and error.status == 400:
                logger.error(
                    "Matrix: the server refused the position; reading from now on: {}", error
                )
                await self._bookmark.forget()
                raise HomeserverNotConnected(str(error)) from None
            raise
        if not isinstance(answer, dict) or not answer.get("next_batch"):
            raise HomeserverNotConnected("an answer to /sync without its next_batch")
        return answer

    async def _take(self, answer: Json, page: SyncPage, since: str, *, away: bool) -> None:
        for event in _events(answer, "account_data"):
            if event.get("type") == "m.direct":
                self._rooms.apply_direct(event.get("content"))
        rooms = table(answer.get("rooms"))
        for room_id, invited in table(rooms.get("invite")).items():
            job = partial(self._invited, room_id, table(invited), since)
            await self._queue.submit(room_id, page.job(job))
        for room_id, joined in table(rooms.get("join")).items():
            await self._joined(room_id, table(joined), page, since, away=away)

    async def _joined(
        self, room_id: str, joined: Json, page: SyncPage, since: str, *, away: bool
    ) -> None:
        room = self._rooms.room(room_id)
        was_encrypted = room.encrypted
        timeline, state = _events(joined, "timeline"), _events(joined, "state")
        for event in (*state, *timeline):
            if "state_key" in event:
                room.apply_state(event)
        if room.encrypted and not was_encrypted:
            logger.warning("Matrix: {} is encrypted; its messages cannot be read", room_id)
        if not since:
            return  # a new account reads only later events, not the room's history
        part, own = table(joined.get("timeline")), self._account.user_id
        came = next((n for n, event in enumerate(timeline) if _is_our_coming(event, own)), -1)
        if (
            came < 0
            and part.get("limited") is True
            and not any(_is_our_coming(event, own) for event in state)
        ):
            job = partial(self._fill, room_id, words(part.get("prev_batch")), since, away=away)
            await self._queue.submit(room_id, page.job(job))
        for number, event in enumerate(timeline):
            if number < came and event.get("type") not in MESSAGES:
                # Events from before the account joined: messages are read, notices are not.
                continue
            if (asked := read_knock(room_id, event, self._account.user_id)) is not None:
                await self._queue.submit(room_id, page.job(partial(self._account.requested, asked)))
                continue
            medium = self._intake.medium(room_id, event, self._queue)
            left = away or number < came
            decision = self._account.offer(room_id, event)
            job = partial(
                self._intake.take, room_id, event, away=left, medium=medium, decision=decision
            )
            await self._queue.submit(room_id, page.job(job))

    async def _fill(self, room_id: str, start: str, since: str, *, away: bool) -> None:
        """Request the events that an answer left out, and process them, oldest first. If the server
        refuses a page, only the events of the pages before it are processed. Raises
        `HomeserverError` after another failure, for which a later try may help."""
        path = f"client/v3/rooms/{quote(room_id, safe='')}/messages"
        events: list[Json] = []
        page = start
        for _ in range(GAP_PAGES):
            question = {"dir": "b", "limit": GAP_PAGE, "to": since, "from": page}
            try:
                answer = table(await self._server.get(path, question))
            except HomeserverRefused as error:
                logger.error("Matrix: the missed events of {} cannot be read: {}", room_id, error)
                break
            chunk = answer.get("chunk")
            if not isinstance(chunk, list) or not chunk:
                break
            events += [event for event in chunk if isinstance(event, dict)]
            page = words(answer.get("end"))
            if not page:
                break
        for event in reversed(events):
            await self._intake.take(room_id, event, away=away)

    async def _invited(self, room_id: str, invited: Json, since: str) -> None:
        """Accept an invitation. If it is not to be accepted, or if the account cannot join, store
        it for the operator, who can accept it later."""
        own = self._account.user_id
        asked, direct = read_invitation(room_id, _events(invited, "invite_state"), own, since)
        if not self._account.accepts_invite(asked.user_id):
            await self._account.requested(asked)
            return
        for pause in (0.0, *JOIN_PAUSES_S):
            await anyio.sleep(pause)
            try:
                path = f"client/v3/join/{quote(room_id, safe='')}"
                await self._server.call("POST", path, body={}, seconds=JOIN_S)
                if direct:
                    await self._rooms.add_direct(asked.user_id, room_id)
                logger.info("Matrix: {} joined {}, invited by {}", own, room_id, asked.user_id)
            except HomeserverError as error:
                logger.warning("Matrix: {} cannot join {}: {}", own, room_id, error)
            else:
                return
        await self._account.requested(asked)


_FILTER = json.dumps(
    {
        "presence": {"types": []},
        "account_data": {"types": ["m.direct"]},
        "room": {
            "account_data": {"types": []},
            "ephemeral": {"types": []},
            "timeline": {"limit": EVENTS, "lazy_load_members": True},
            "state": {"lazy_load_members": True, "include_redundant_members": True},
        },
    }
)


def _events(part: Mapping[str, Any], name: str) -> list[Json]:
    events = table(part.get(name)).get("events")
    return (
        [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []
    )


def _is_our_coming(event: Json, own: str) -> bool:
    before = table(table(event.get("unsigned")).get("prev_content")).get("membership")
    return (
        event.get("type") == "m.room.member"
        and event.get("state_key") == own
        and table(event.get("content")).get("membership") == "join"
        and before != "join"
    )
