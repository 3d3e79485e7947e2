"""Serves the fake Bot API over HTTP: long polling, multipart calls, files and faults."""

import email
import email.policy
import json
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import anyio
import httpx
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.peers.listening import LoopbackServer, Request, read_request
from tests.peers.telegram.account import Account, Call, Json, Refused, Upload
from tests.peers.telegram.answers import Abort, Answer, Failed, Late, Silence

TOKEN = "20002:a-token-for-tests"
USERNAME = "nekro_test_bot"
RELAYED = ("sendMessage", "getUpdates", "editMessageText", "deleteMessage", "deleteWebhook")
"""The methods that telegram-test-api supports. It handles text only."""


class TelegramPeer(LoopbackServer):
    """One bot's account on a Bot API server. An async context manager.

    ``relay`` is the address of a running telegram-test-api. Calls that it supports are forwarded to
    it. The peer itself answers the other calls (media, files).
    """

    def __init__(
        self, token: str = TOKEN, *, privacy: bool = False, relay: str = "", port: int = 0
    ) -> None:
        super().__init__(port)
        self.token = token
        self.relay = relay
        self.account = Account(int(token.partition(":")[0]), USERNAME, privacy=privacy)
        self.calls: list[Call] = []
        self.polls: list[Json] = []
        """The parameters of each ``getUpdates``."""
        self.on_call: Callable[[Call], None] | None = None
        self.silent: set[str] = set()
        """The ids of files whose download gets no answer."""
        self.waited_for: list[str] = []
        """The ids of files in ``silent`` that the bot has requested."""
        self.online = True
        self._answers: dict[str, deque[Answer]] = {}
        self._changed = anyio.Event()
        self._polling: anyio.Event | None = None
        self._streams: set[SocketStream] = set()

    @property
    def address(self) -> str:
        """The adapter's setting ``api_server``."""
        return self.base_url.removesuffix("v1")

    @property
    def username(self) -> str:
        return str(self.account.me["username"])

    # -- what people in the chats do -------------------------------------------------------

    async def say(self, chat_id: int, user: int | Json, text: str = "", **more: Any) -> int:
        """Post a person's message, as `Account.said` does. Returns its id on the platform."""
        message = self.account.said(chat_id, user, text, **more)
        if not self.account.privacy or self.account.heard_in_privacy(message):
            kind = "channel_post" if message["chat"]["type"] == "channel" else "message"
            await self.tell(kind, message)
        return int(message["message_id"])

    async def change(self, chat_id: int, message_id: int, text: str) -> None:
        """Edit a message as its author."""
        message = self.account.messages[chat_id, message_id]
        message |= {"text": text, "edit_date": message["date"] + 1}
        await self.tell("edited_message", message)

    async def tell(self, kind: str, what: Json) -> None:
        """Send any update to the bot."""
        if self.relay and kind == "message":
            await self._ask_relay(f"next/{what['message_id']}", {})
            await self._ask_relay("sendMessage", {**what, "botToken": self.token})
        else:
            self.account.tell(kind, what)
        self._note()

    # -- what the bot did ------------------------------------------------------------------

    @property
    def sends(self) -> list[Call]:
        """Messages and media that the platform accepted."""
        return [c for c in self.calls if _is_message(c.method) and c.result is not None]

    async def until(self, condition: Callable[[], bool], within: float = 30) -> None:
        """Wait until a condition on the peer's state holds."""
        with anyio.fail_after(within):
            while not condition():
                await self._changed.wait()

    async def sent(self, count: int, within: float = 30) -> list[Call]:
        """Wait until the bot has sent this many messages, and return them."""
        await self.until(lambda: len(self.sends) >= count, within)
        return self.sends

    def answer(self, method: str, *answers: Answer) -> None:
        """Choose answers for the next calls of a method. ``send`` means every method that sends."""
        self._answers.setdefault(method, deque()).extend(answers)

    async def cut(self) -> None:
        """Simulate a network failure: every connection ends, and no new one works until `heal`."""
        self.online = False
        for stream in [*self._streams]:
            await stream.aclose()

    def heal(self) -> None:
        """Let connections work again."""
        self.online = True

    # -- inside ----------------------------------------------------------------------------

    def _note(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        self._streams.add(stream)
        try:
            return await self._serve(stream, reader)
        except anyio.ClosedResourceError:
            return False
        finally:
            self._streams.discard(stream)

    async def _serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        if not self.online:
            return False
        request = await read_request(reader)
        path = unquote(urlsplit(request.path).path)
        prefix, _, method = path.removeprefix("/").partition(f"bot{self.token}/")
        if prefix == "file/":
            return await self._serve_file(stream, method.rpartition("/")[2])
        if prefix or not method:
            return await _reply(stream, 401, _no(401, "Unauthorized"))
        call = _call(method, request)
        if method == "getUpdates":
            self.polls.append(call.params)
            self._note()
            return await _reply(stream, 200, await self._poll(call))
        return await self._answer(stream, call)

    async def _poll(self, call: Call) -> Json:
        """Return the unconfirmed updates. If there are none, wait for one until the poll's
        timeout."""
        if self._polling is not None:
            self._polling.set()
        taken_over = self._polling = anyio.Event()
        offset = call.params.get("offset")
        if offset is not None:
            self.account.updates = [
                update for update in self.account.updates if update["update_id"] >= offset
            ]
        with anyio.move_on_after(float(call.params.get("timeout") or 0)):
            while not self.account.updates and not taken_over.is_set():
                if self.relay:
                    found = (await self._relayed(call)).get("result") or []
                    self.account.updates += found
                    with anyio.move_on_after(0.05):
                        await self._changed.wait()
                else:
                    await self._changed.wait()
        if taken_over.is_set():
            return _no(409, "Conflict: terminated by other getUpdates request")
        return {"ok": True, "result": self.account.updates[:100]}

    async def _answer(self, stream: SocketStream, call: Call) -> bool:
        waiting = self._answers.get(call.method) or (
            self._answers.get("send") if _is_message(call.method) else None
        )
        answer = waiting.popleft() if waiting else None
        body: Json
        if isinstance(answer, Failed):
            body = _no(answer.code, answer.description)
            if answer.parameters:
                body["parameters"] = answer.parameters
        elif isinstance(answer, Abort) and not answer.done:
            body = _no(500, "never answered")
        else:
            body = await self._do(call)
        done = Call(call.method, call.params, call.files, body.get("result"))
        self.calls.append(done)
        if self.on_call is not None:
            self.on_call(done)
        self._note()
        match answer:
            case Silence():
                await anyio.sleep(3600)
            case Abort():
                return False
            case Late(seconds):
                await anyio.sleep(seconds)
        return await _reply(stream, int(body.get("error_code", 200)), body)

    async def _do(self, call: Call) -> Json:
        try:
            result = self.account.do(call.method, call.params, call.files)
            if not self.relay or call.method not in RELAYED:
                return {"ok": True, "result": result}
            if isinstance(result, dict):
                await self._ask_relay(f"next/{result['message_id']}", {})
            return await self._relayed(call)
        except Refused as refusal:
            return _no(refusal.code, str(refusal))

    async def _relayed(self, call: Call) -> Json:
        return await self._ask_relay(f"bot{self.token}/{call.method}", call.params)

    async def _ask_relay(self, path: str, body: Json) -> Json:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            answer: Json = (await client.post(f"{self.relay}/{path}", json=body)).json()
            return answer

    async def _serve_file(self, stream: SocketStream, identity: str) -> bool:
        found = self.account.files.get(identity)
        if identity in self.silent:
            self.waited_for.append(identity)
            await anyio.sleep_forever()
        if found is None:
            return await _reply(stream, 404, _no(404, "Not Found"))
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(found.data)}\r\n\r\n"
        await stream.send(head.encode() + found.data)
        return True


async def _reply(stream: SocketStream, status: int, body: Json) -> bool:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    await stream.send(head.encode() + b"\r\n\r\n" + data)
    return True


def _no(code: int, description: str) -> Json:
    return {"ok": False, "error_code": code, "description": description}


def _call(method: str, request: Request) -> Call:
    """Decode a call whose parameters are a query, JSON, a form or multipart. Values may be JSON."""
    query = dict(parse_qsl(urlsplit(request.path).query))
    kind = request.headers.get("content-type", "")
    if kind.startswith("application/json"):
        return Call(method, query | json.loads(request.body or b"{}"))
    if kind.startswith("multipart/"):
        head = f"Content-Type: {kind}\r\n\r\n".encode()
        parts = email.message_from_bytes(head + request.body, policy=email.policy.HTTP)
        params: Json = {}
        files: dict[str, Upload] = {}
        for part in parts.iter_parts():  # type: ignore[attr-defined]
            name = part.get_param("name", header="content-disposition")
            data = part.get_payload(decode=True)
            if part.get_filename() is None:
                params[name] = _decoded(data.decode())
            else:
                files[name] = Upload(part.get_filename(), data, part.get_content_type())
        return Call(method, query | params, files)
    form = dict(parse_qsl(request.body.decode(), keep_blank_values=True))
    return Call(method, query | {name: _decoded(value) for name, value in form.items()})


def _decoded(value: str) -> Any:
    if value[:1] in "[{" or value in ("true", "false", "null") or value.lstrip("-").isdigit():
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _is_message(method: str) -> bool:
    """Return True if a method sends a message or a medium. `sendChatAction` only shows the typing
    state."""
    return method.startswith("send") and method != "sendChatAction"
