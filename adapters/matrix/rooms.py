"""Caches data of rooms: members' names, power levels, which rooms are private, recent messages."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from loguru import logger

from nekro_core.api.chat import ChatKey, ChatKind, Role

from .homeserver import Homeserver, HomeserverError, Json

LOOKUP_S = 5.0
"""Time limit for one request about a room, in seconds."""
PEOPLE = 4096
"""Maximum number of members of one room whose names are cached."""
EVENTS = 4096
"""Maximum number of events of all rooms that are cached with sender and text, for replies and
recalls."""
_LEVELS_ONLY = frozenset({None, *map(str, range(1, 12))})
"""Room versions in which power levels alone define permissions."""
ADMIN, OWNER = 50, 100
"""Power levels that clients show as "moderator" and "admin"."""


@dataclass(frozen=True, slots=True)
class QuotableEvent:
    """The parts of an event that are needed to quote it. ``thread`` is the id of the first event
    of its thread."""

    sender: str
    text: str
    thread: str | None = None


@dataclass(slots=True)
class Room:
    """One room that the account is in."""

    names: "OrderedDict[str, str]" = field(default_factory=OrderedDict)
    powers: Mapping[str, Any] | None = None
    creators: frozenset[str] | None = None
    encrypted: bool = False

    def apply_state(self, event: Json) -> None:
        """Update the room from a state event."""
        content = _table(event.get("content"))
        match event.get("type"):
            case "m.room.member":
                user, name = event.get("state_key"), content.get("displayname")
                if isinstance(user, str):
                    self._name(user, name if isinstance(name, str) else "")
            case "m.room.power_levels":
                self.powers = _table(content.get("users"))
            case "m.room.create":
                self.creators = _creators(event)
            case "m.room.encryption":
                self.encrypted = True

    def role_of(self, user: str) -> Role:
        """Return a person's role, which depends on the power level. In rooms of version 12 and
        later, the creators are owners whatever their level."""
        level = (self.powers or {}).get(user, 0)
        if user in (self.creators or ()) or (isinstance(level, int) and level >= OWNER):
            return Role.OWNER
        return Role.ADMIN if isinstance(level, int) and level >= ADMIN else Role.MEMBER

    def _name(self, user: str, name: str) -> None:
        self.names[user] = name
        self.names.move_to_end(user)
        if len(self.names) > PEOPLE:
            self.names.popitem(last=False)


class Rooms:
    """The rooms of one account. A value that is not cached is requested from the server. If that
    fails, the value is empty."""

    def __init__(self, server: Homeserver, account: str) -> None:
        self._server = server
        self._account = account
        self._rooms: dict[str, Room] = {}
        self._direct: dict[str, list[str]] = {}
        self._said: OrderedDict[str, QuotableEvent] = OrderedDict()

    async def load(self) -> None:
        """Request the list of private rooms. Raises `HomeserverError`."""
        try:
            self.apply_direct(await self._server.get(self._direct_path))
        except HomeserverError as error:
            if getattr(error, "status", 0) != 404:
                raise

    def apply_direct(self, content: Any) -> None:
        """Store the account's ``m.direct``, which lists the private rooms with each person."""
        self._direct = {
            user: [room for room in rooms if isinstance(room, str)]
            for user, rooms in _table(content).items()
            if isinstance(rooms, list)
        }

    async def add_direct(self, user: str, room_id: str) -> None:
        """Add a private room to the account's ``m.direct`` on the server. Raises
        `HomeserverError`."""
        rooms = self._direct.setdefault(user, [])
        if room_id not in rooms:
            rooms.append(room_id)
            await self._server.call("PUT", self._direct_path, body=dict(self._direct))

    @property
    def _direct_path(self) -> str:
        return f"client/v3/user/{quote(self._account, safe='')}/account_data/m.direct"

    def key(self, instance: str, room_id: str, thread: str | None = None) -> ChatKey:
        """Return the chat key of a room or thread. Raises `ChatKeyError`."""
        private = any(room_id in rooms for rooms in self._direct.values())
        kind = ChatKind.PRIVATE if private else ChatKind.GROUP
        return ChatKey(instance, kind, room_id, thread)

    def room(self, room_id: str) -> Room:
        """Return the cached data of a room, without a request to the server."""
        return self._rooms.setdefault(room_id, Room())

    async def known(self, room_id: str) -> Room:
        """Return a room with its power levels and creators. If they are not cached, they are
        requested from the server."""
        room = self.room(room_id)
        path = f"client/v3/rooms/{quote(room_id, safe='')}/state"
        if room.powers is None:
            content = _table(await self._ask(f"{path}/m.room.power_levels/"))
            room.powers = _table(content.get("users"))
        if room.creators is None:
            event = _table(await self._ask(f"{path}/m.room.create/", {"format": "event"}))
            room.creators = _creators(event)
        return room

    async def name_of(self, room_id: str, user: str) -> str:
        """Return a person's display name in a room; empty if it is not known."""
        room = self.room(room_id)
        if user not in room.names:
            member = quote(user, safe="")
            path = f"client/v3/rooms/{quote(room_id, safe='')}/state/m.room.member/{member}"
            content = _table(await self._ask(path))
            room.apply_state({"type": "m.room.member", "state_key": user, "content": content})
        return room.names.get(user, "")

    def remember(self, event_id: str, said: QuotableEvent) -> None:
        """Cache an event, to quote it later."""
        self._said[event_id] = said
        if len(self._said) > EVENTS:
            self._said.popitem(last=False)

    def cached_event(self, event_id: str) -> QuotableEvent | None:
        """Return an event from the cache."""
        return self._said.get(event_id)

    async def event(self, room_id: str, event_id: str) -> Json:
        """Request an event of the room from the server; empty if that fails."""
        path = f"client/v3/rooms/{quote(room_id, safe='')}/event/{quote(event_id, safe='')}"
        return _table(await self._ask(path))

    async def _ask(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        try:
            return await self._server.get(path, params, seconds=LOOKUP_S)
        except HomeserverError as error:
            logger.debug("Matrix: the request {} failed: {}", path, error)
            return None


def _creators(event: Json) -> frozenset[str]:
    """Return the room's creators. Since room version 12, they have more power than any power level
    gives."""
    content = _table(event.get("content"))
    if content.get("room_version") in _LEVELS_ONLY:
        return frozenset()
    also = content.get("additional_creators")
    more = also if isinstance(also, list) else []
    return frozenset(user for user in [event.get("sender"), *more] if isinstance(user, str))


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
