"""The connection between the fake OneBot implementation and an application, such as the bot: it
sends and receives frames, records them, and applies faults."""

import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup
from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.peers.onebot_v11.account import Account, BadParameters, Chat, UnknownAction, number
from tests.peers.onebot_v11.answers import Abort, Answer, Async, Failed, Late, Silence
from tests.peers.onebot_v11.calls import SENDS, Call, WireFrame
from tests.peers.onebot_v11.messages import Json, at, segments_of

PAYLOAD_LIMIT = 50 * 1024 * 1024
"""The largest accepted frame in bytes, as in NapCat's client. A larger one ends the connection."""


@dataclass
class OneBotPeer:
    """One account's connection to an application. An async context manager.

    With ``url`` it connects to that address, as a reverse WebSocket. Without ``url`` it listens on
    `port` (0: any free port) as a forward WebSocket server; `address` is then its address.
    """

    self_id: str = "20002"
    token: str | None = None
    url: str | None = None
    port: int = 0
    reconnect_s: float | None = 0.1
    heartbeat_s: float | None = None
    echo_own: str | None = None
    """``message_sent`` or ``message``: the type of the event that reports the application's own
    messages. If None, they are not reported."""
    string_messages: bool = False
    has_history: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    through: tuple[str, int] | None = None
    """Host and port to connect to instead of those in `url`, which the ``Host`` header names: as if
    this machine knew the name in `url` under that address."""
    on_frame: Callable[[WireFrame], None] | None = None
    log: list[WireFrame] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    """The reasons why handshakes and connections failed, newest last. Either side may have
    refused."""
    connections: int = 0
    """How many connections there have been, including the present one."""
    spoken_to: dict[int, float] = field(default_factory=dict)
    """The time at which the application first sent a frame on a connection, in seconds since 1970,
    by the number of the connection. From then on, the application no longer uses the previous
    connection."""

    def __post_init__(self) -> None:
        self.account = Account(
            self.self_id, string_messages=self.string_messages, has_history=self.has_history
        )
        self.address = ""
        self._wire: Connection | None = None
        self._stack = AsyncExitStack()
        self._answers: dict[str, deque[Answer]] = {}
        self._taken = 0
        self._changed = anyio.Event()

    async def __aenter__(self) -> Self:
        self._tasks: TaskGroup = await self._stack.enter_async_context(anyio.create_task_group())
        if self.url is not None:
            self._tasks.start_soon(self._keep_connected, self.url)
        else:
            server = await self._stack.enter_async_context(self._server())
            self.port = server.sockets[0].getsockname()[1]
            self.address = f"ws://127.0.0.1:{self.port}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.reconnect_s = None
        with anyio.CancelScope(shield=True):
            await self.close()
        self._tasks.cancel_scope.cancel()
        await self._stack.aclose()

    # -- what people in the chats do -------------------------------------------------------

    async def say_in_group(
        self,
        group: int | str,
        user: int | str,
        what: str | Json | list[Json],
        *,
        at_me: bool = False,
        **more: Any,
    ) -> Any:
        """Post a person's message in a group. Without a connection only the history gets it."""
        segments = segments_of(what)
        if at_me:
            segments = [at(self.self_id), *segments]
        return await self._say(("group", str(group)), user, segments, **more)

    async def say_in_private(
        self, user: int | str, what: str | Json | list[Json], **more: Any
    ) -> Any:
        return await self._say(("private", str(user)), user, segments_of(what), **more)

    async def _say(self, chat: Chat, user: int | str, segments: list[Json], **more: Any) -> Any:
        event = self.account.message(chat, user, segments, **more)
        await self.emit(event)
        return event["message_id"]

    async def notice(self, notice_type: str, **fields: Any) -> None:
        await self.emit(
            {
                "time": int(time.time()),
                "self_id": number(self.self_id),
                "post_type": "notice",
                "notice_type": notice_type,
                **fields,
            }
        )

    # -- frames on the connection --------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self._wire is not None

    async def emit(self, frame: Json) -> None:
        """Send an event if the peer is connected. OneBot implementations do not store events."""
        if self._wire is not None:
            await self._send(self._wire, frame)

    async def send_raw(self, data: str | bytes) -> None:
        """Send any frame, even one that is not JSON."""
        assert self._wire is not None, "not connected"
        await self._wire.send(data)

    async def until(self, condition: Callable[[], bool], timeout: float = 30) -> None:
        """Wait until a condition on the peer's state holds."""
        with anyio.fail_after(timeout):
            while not condition():
                await self._changed.wait()

    async def wait_connected(self, timeout: float = 30) -> None:
        await self.until(lambda: self.connected, timeout)

    async def wait_disconnected(self, timeout: float = 30) -> None:
        await self.until(lambda: not self.connected, timeout)

    async def next_call(self, *actions: str, timeout: float = 30) -> Call:
        """Wait for the next call of one of these actions (default: any), in order of arrival."""
        with anyio.fail_after(timeout):
            while True:
                while self._taken < len(self.calls):
                    call = self.calls[self._taken]
                    self._taken += 1
                    if not actions or call.action in actions:
                        return call
                await self._changed.wait()

    async def next_send(self, timeout: float = 30) -> Call:
        """Wait for the next message or file that the application sends."""
        return await self.next_call(*SENDS, timeout=timeout)

    @property
    def sends(self) -> list[Call]:
        return [call for call in self.calls if call.action in SENDS]

    def answer(self, action: str, *answers: Answer) -> None:
        """Choose answers for the next calls of an action. ``send`` means every sending action."""
        for name in SENDS if action == "send" else (action,):
            self._answers.setdefault(name, deque()).extend(answers)

    def abort(self) -> None:
        """Reset the connection without a close frame, as happens when a cable is cut or a process
        ends."""
        if self._wire is not None:
            self._wire.transport.abort()

    def stop_reading(self) -> None:
        """Stop reading without closing: a half-open connection."""
        assert self._wire is not None, "not connected"
        self._wire.transport.pause_reading()

    async def close(self) -> None:
        """Close the connection properly. If this takes longer than 0.3 s, cut it."""
        wire = self._wire
        if wire is not None:
            with anyio.move_on_after(0.3):
                await wire.close()
            wire.transport.abort()

    # -- inside ----------------------------------------------------------------------------

    def _note(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _server(self) -> AbstractAsyncContextManager[Any]:
        return serve(
            self._serve_one, "127.0.0.1", self.port, max_size=PAYLOAD_LIMIT, close_timeout=0.2
        )

    async def _serve_one(self, wire: ServerConnection) -> None:
        assert wire.request is not None
        offered = wire.request.headers.get("Authorization", "")
        if self.token and offered.removeprefix("Bearer ") != self.token:
            # NapCat accepts the handshake, reports the wrong token in a frame and closes.
            self.refusals.append("wrong token")
            await wire.send(json.dumps({"retcode": 1403, "status": "failed", "wording": "token"}))
            await wire.close(1008)
            return
        await self._talk(wire)

    async def _keep_connected(self, url: str) -> None:
        headers = {
            "X-Self-ID": self.self_id,
            "X-Client-Role": "Universal",
            "Authorization": f"Bearer {self.token or ''}",
            **self.headers,
        }
        other: dict[str, Any] = {}
        if self.through is not None:
            other = {"host": self.through[0], "port": self.through[1]}
        while True:
            try:
                async with connect(
                    url,
                    **other,
                    additional_headers=headers,
                    max_size=PAYLOAD_LIMIT,
                    proxy=None,
                    close_timeout=0.2,
                ) as wire:
                    await self._talk(wire)
            except (OSError, InvalidHandshake, ConnectionClosed, TimeoutError) as error:
                self.refusals.append(str(error))
                self._note()
            if self.reconnect_s is None:
                return
            await anyio.sleep(self.reconnect_s)

    async def _talk(self, wire: Connection) -> None:
        beating = anyio.CancelScope()
        self.connections += 1
        connection = self.connections
        try:
            await self._send(wire, self._meta("lifecycle", sub_type="connect"))
            self._wire = wire
            self._note()
            if self.heartbeat_s:
                self._tasks.start_soon(self._beat, wire, self.heartbeat_s, beating)
            async for data in wire:
                self.spoken_to.setdefault(connection, time.time())
                await self._hear(wire, data)
        except ConnectionClosed:
            pass
        finally:
            beating.cancel()
            if self._wire is wire:
                self._wire = None
            self._note()

    async def _beat(self, wire: Connection, interval: float, scope: anyio.CancelScope) -> None:
        with scope:
            while True:
                await anyio.sleep(interval)
                status = {"online": True, "good": True}
                beat = self._meta("heartbeat", status=status, interval=int(interval * 1000))
                await self._send(wire, beat)

    def _meta(self, kind: str, **fields: Any) -> Json:
        return {
            "time": int(time.time()),
            "self_id": number(self.self_id),
            "post_type": "meta_event",
            "meta_event_type": kind,
            **fields,
        }

    async def _send(self, wire: Connection, frame: Json) -> None:
        # The frame is logged before it is sent, so the log also has frames that were lost.
        self._write_log(outbound=True, frame=frame)
        data = json.dumps(frame, ensure_ascii=False)
        try:
            data.encode()
        except UnicodeEncodeError:  # half of a surrogate pair can only be sent as an escape
            data = json.dumps(frame)
        with suppress(ConnectionClosed):
            await wire.send(data)

    def _write_log(self, *, outbound: bool, frame: Json) -> None:
        entry = WireFrame(time.monotonic(), outbound, frame)
        self.log.append(entry)
        if self.on_frame is not None:
            self.on_frame(entry)

    async def _hear(self, wire: Connection, data: str | bytes) -> None:
        frame = json.loads(data)
        self._write_log(outbound=False, frame=frame)
        action, params = str(frame["action"]), frame.get("params") or {}
        waiting = self._answers.get(action)
        answer = waiting.popleft() if waiting else None
        body: Json
        if isinstance(answer, Failed):
            body = _failed(answer.retcode, answer.wording)
        elif isinstance(answer, Abort) and not answer.done:
            body = {}
        else:
            body = self._do(action.removesuffix("_async"), params)
        self.calls.append(
            Call(action, params, frame.get("echo"), time.monotonic(), body.get("data"))
        )
        self._note()
        await self._reply(wire, frame, body, answer)
        if self.echo_own is not None and action.startswith("send_") and body.get("data"):
            own = self.account.do_get_msg(body["data"])
            await self._send(wire, {**own, "post_type": self.echo_own})

    async def _reply(
        self, wire: Connection, frame: Json, body: Json, answer: Answer | None
    ) -> None:
        echo = {"echo": frame["echo"]} if "echo" in frame else {}
        match answer:
            case Silence():
                return
            case Abort():
                wire.transport.abort()
            case Async():
                await self._send(wire, {"status": "async", "retcode": 1, "data": None, **echo})
            case Late(seconds):

                async def later() -> None:
                    await anyio.sleep(seconds)
                    await self._send(wire, {**body, **echo})

                self._tasks.start_soon(later)
            case _:
                await self._send(wire, {**body, **echo})

    def _do(self, action: str, params: Json) -> Json:
        try:
            data = self.account.do(action, params)
        except UnknownAction:
            return _failed(1404, f"不支持的Api {action}")
        except BadParameters as error:
            return _failed(1400, str(error))
        except LookupError as error:
            return _failed(1200, str(error))
        return {"status": "ok", "retcode": 0, "data": data, "message": "", "wording": ""}


def _failed(retcode: int, wording: str) -> Json:
    return {
        "status": "failed",
        "retcode": retcode,
        "data": None,
        "message": wording,
        "wording": wording,
    }
