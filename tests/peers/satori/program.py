"""Runs the Satori process: satori-python-server with one login, controlled by lines of JSON.

A line on standard input is a command,
``{"do": "say" | "event" | "file" | "answer" | "hang_up", ...}``.
A line on standard output reports a call or a connection.
"""

import asyncio
import itertools
import json
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from satori.model import Channel, ChannelType, Event, Guild, Login, Member, MessageObject, User
from satori.server import Adapter, Request, Server
from starlette.responses import Response

Json = dict[str, Any]


def tell(what: Json) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Platform(Adapter[None]):
    """A platform with one bot. Standard input says what people do."""

    def __init__(self, name: str, self_id: str) -> None:
        super().__init__()
        self.name, self.self_id = name, self_id
        self.loop: asyncio.AbstractEventLoop
        self.orders: asyncio.Queue[Json] = asyncio.Queue()
        self.messages: dict[str, list[MessageObject]] = {}
        self.answers: deque[Json] = deque()
        self.numbers = itertools.count(1)
        for action in (
            "message.create", "message.update", "message.delete", "message.get", "message.list",
            "user.channel.create", "guild.member.get", "user.get",
        ):  # fmt: skip
            self.routes[action] = self.handle

    # -- methods that satori-python needs ----------------------------------------------------

    @property
    def required(self) -> set[str]:
        return set()

    @property
    def stages(self) -> set[str]:
        return {"blocking"}

    async def launch(self, manager: Any) -> None:
        async with self.stage("blocking"):
            self.loop = asyncio.get_running_loop()
            threading.Thread(target=self.read_orders, daemon=True).start()
            await manager.status.wait_for_sigexit()

    def get_platform(self) -> str:
        return self.name

    def ensure(self, platform: str, self_id: str) -> bool:
        return (platform, self_id) == (self.name, self.self_id)

    async def get_logins(self) -> list[Login]:
        tell({"connected": True})
        return [self.login()]

    async def handle_internal(self, request: Request[Any], path: str) -> Response:
        file = next((f for f in self.files if f["path"] == path), None)
        if file is None:
            return Response(f"no file {path}", status_code=404)
        return Response(bytes.fromhex(file["data"]), media_type=file["mime"])

    async def publisher(self) -> AsyncIterator[Event]:
        while True:
            order = await self.orders.get()
            if order["do"] == "answer":
                self.answers.append(order)
            elif order["do"] == "file":
                self.files.append(order)
            elif order["do"] == "hang_up":
                for connection in list(self.server.connections):
                    await connection.connection.close(1001)
                    await connection.connection_closed()
            else:
                yield self.said(order) if order["do"] == "say" else self.event(order)

    # -- people ------------------------------------------------------------------------------

    files: list[Json] = []  # noqa: RUF012 - one platform per process

    def login(self) -> Login:
        user = User(self.self_id, "nekro", is_bot=True)
        return Login(platform=self.name, user=user, features=["message.create", "message.list"])

    def read_orders(self) -> None:
        for line in sys.stdin:
            self.loop.call_soon_threadsafe(self.orders.put_nowait, json.loads(line))

    def channel(self, identity: str) -> Channel:
        private = identity.startswith("private:")
        return Channel(
            identity, ChannelType.DIRECT if private else ChannelType.TEXT, f"# {identity}"
        )

    def said(self, order: Json) -> Event:
        channel = self.channel(order["channel"])
        user = User(order["user"], order.get("name") or f"User {order['user']}")
        message = MessageObject(order["id"], order["content"], created_at=datetime.now(UTC))
        message.user, message.channel = user, channel
        self.messages.setdefault(channel.id, []).append(message)
        return Event(
            type=order.get("type") or "message-created",
            timestamp=datetime.now(UTC),
            login=self.login(),
            channel=channel,
            guild=None if channel.type is ChannelType.DIRECT else Guild(order["channel"], "guild"),
            member=Member(nick=order.get("nick")),
            user=user,
            message=message,
        )

    def event(self, order: Json) -> Event:
        channel, user = self.channel(order["channel"]), User(order["user"])
        operator = User(order["operator"]) if order.get("operator") else None
        found = [m for m in self.messages.get(channel.id, ()) if m.id == order.get("message")]
        return Event(
            type=order["type"],
            timestamp=datetime.now(UTC),
            login=self.login(),
            channel=channel,
            guild=Guild(channel.id),
            user=user,
            operator=operator,
            member=Member(),
            message=found[0] if found else None,
        )

    # -- the bot -----------------------------------------------------------------------------

    async def handle(self, request: Request[Any]) -> Any:
        order = next((a for a in self.answers if request.action.startswith(a["action"])), None)
        if order is not None:
            self.answers.remove(order)
        call: Json = {"action": request.action, "params": request.params}
        if order is not None and order["kind"] == "refuse":
            tell({"call": call, "refused": True})
            return Response(order.get("words", "not allowed"), status_code=order.get("status", 403))
        result = getattr(self, "do_" + request.action.replace(".", "_"))(request.params)
        tell({"call": call, "result": result})
        if order is not None and order["kind"] == "silence":
            await asyncio.sleep(order.get("seconds", 3600))
        return result

    def do_message_create(self, params: Json) -> list[Json]:
        channel = self.channel(params["channel_id"])
        message = MessageObject(f"m{next(self.numbers)}", params["content"], channel=channel)
        message.user, message.created_at = self.login().user, datetime.now(UTC)
        self.messages.setdefault(channel.id, []).append(message)
        return [message.dump()]

    def do_message_update(self, params: Json) -> Json:
        message = self.find(params)
        message.content = params["content"]
        return {}

    def do_message_delete(self, params: Json) -> Json:
        self.messages[params["channel_id"]].remove(self.find(params))
        return {}

    def do_message_get(self, params: Json) -> Json:
        return self.find(params).dump()

    def do_message_list(self, params: Json) -> Json:
        return {"data": [m.dump() for m in self.messages.get(params["channel_id"], [])[-50:]]}

    def do_user_channel_create(self, params: Json) -> Json:
        return self.channel(f"private:{params['user_id']}").dump()

    def do_guild_member_get(self, params: Json) -> Json:
        return Member(User(params["user_id"]), f"User {params['user_id']}").dump()

    def do_user_get(self, params: Json) -> Json:
        return User(params["user_id"], f"User {params['user_id']}").dump()

    def find(self, params: Json) -> MessageObject:
        known = self.messages.get(params["channel_id"], ())
        return next(m for m in known if m.id == params["message_id"])


def main() -> None:
    port, token, platform, self_id = sys.argv[1:5]
    server = Server("127.0.0.1", int(port), token=token)
    server.apply(Platform(platform, self_id))
    server.run()


if __name__ == "__main__":
    main()
