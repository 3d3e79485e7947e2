"""What people see of the bot's messages on Telegram, Discord and Matrix, with the times of each
call that sends or edits a message."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import anyio
import pytest
from nonebot.drivers import Request, Response

from nekro_core.api.chat import ChatKey
from tests.adapters.matrix.running import key_of, people, running
from tests.adapters.uniseg.peers.discord import CHANNEL, SELF, Discord, message
from tests.adapters.uniseg.telegram.running import ACCOUNT, GROUP, GROUP_ID, bot_with_peer
from tests.peers.recording_proxy import RecordingProxy, Refusal
from tests.peers.synapse import Synapse
from tests.peers.telegram import Abort, Call, Failed, TelegramPeer

DISCORD_CHAT = ChatKey.parse(CHANNEL)
TOO_LONG_AGO = "too long ago to be edited"


@dataclass
class Seen:
    """A call that sent or edited a message: when it arrived, and what people see after it."""

    at: float
    texts: list[str]


class Screen(Protocol):
    """A platform with one chat. ``states`` has an entry for each call that changed the screen."""

    chat: ChatKey
    adapter: Any
    account: str
    states: list[Seen]

    def refuse_edits(self) -> None:
        """From now on, refuse each edit for good."""

    def throttle_next_edit(self) -> None:
        """Answer the next edit with "too many requests"."""


@dataclass
class TelegramScreen:
    peer: TelegramPeer
    adapter: Any
    chat: ChatKey = GROUP
    account: str = ACCOUNT
    states: list[Seen] = field(default_factory=list)

    def note(self, call: Call) -> None:
        if call.method in ("sendMessage", "editMessageText") and call.result:
            own = [each for each in self.peer.account.messages.values() if self._is_own(each)]
            texts = [each["text"] for each in own]
            self.states.append(Seen(anyio.current_time(), texts))

    def _is_own(self, said: dict[str, Any]) -> bool:
        return bool(said["chat"]["id"] == GROUP_ID and said.get("from") == self.peer.account.me)

    def refuse_edits(self) -> None:
        self.peer.answer("editMessageText", *[Failed(400, f"Bad Request: {TOO_LONG_AGO}")] * 50)

    def throttle_next_edit(self) -> None:
        limit = Failed(429, "Too Many Requests: retry after 1", {"retry_after": 1})
        self.peer.answer("editMessageText", limit)

    def cut_next_edit(self) -> None:
        """Carry out the next edit, and cut the connection instead of answering."""
        self.peer.answer("editMessageText", Abort())


@asynccontextmanager
async def telegram(folder: Path) -> AsyncIterator[TelegramScreen]:
    async with bot_with_peer(folder) as (bench, peer):
        screen = TelegramScreen(peer, bench.adapter)
        peer.on_call = screen.note
        yield screen


@dataclass
class DiscordScreen:
    peer: Discord
    chat: ChatKey = DISCORD_CHAT
    account: str = "998"
    states: list[Seen] = field(default_factory=list)
    answers: list[Response] = field(default_factory=list)
    refuses: bool = False
    shown: dict[str, str] = field(default_factory=dict)

    @property
    def adapter(self) -> Any:
        return self.peer.bench.adapter

    def answer(self, request: Request) -> Any:
        path = request.url.path
        editing = request.method == "PATCH"
        if editing and self.refuses:
            return Response(403, content=f'{{"code": 50005, "message": "{TOO_LONG_AGO}"}}')
        if editing and self.answers:
            return self.answers.pop()
        if not editing and not path.endswith("/messages"):
            return self.peer.answer(request)
        number = path.rpartition("/")[2] if editing else str(6001 + len(self.shown))
        self.shown[number] = request.json["content"]
        self.states.append(Seen(anyio.current_time(), [*self.shown.values()]))
        return message(self.shown[number], id=number, author=SELF)

    def refuse_edits(self) -> None:
        self.refuses = True

    def throttle_next_edit(self) -> None:
        body = '{"message": "You are being rate limited.", "retry_after": 0.5, "global": false}'
        limits = {"Retry-After": "1", "X-RateLimit-Scope": "user"}
        self.answers.append(Response(429, content=body, headers=limits))


@asynccontextmanager
async def discord(folder: Path) -> AsyncIterator[DiscordScreen]:
    async with Discord.connected(folder) as peer:
        await peer.bench.bound()
        screen = DiscordScreen(peer)
        peer.bench.driver.answer = screen.answer
        yield screen


@dataclass
class MatrixScreen:
    proxy: RecordingProxy
    adapter: Any
    chat: ChatKey
    account: str
    states: list[Seen] = field(default_factory=list)
    shown: dict[str, str] = field(default_factory=dict)

    async def follow(self) -> None:
        """Note each message and edit that the homeserver has accepted."""
        seen = 0
        while True:
            sends = [each for each in self.proxy.of("PUT", "/send/") if each.status == 200]
            for each in sends[seen:]:
                new = each.body.get("m.new_content")
                number = each.body["m.relates_to"]["event_id"] if new else each.answer["event_id"]
                self.shown[number] = (new or each.body)["body"]
                self.states.append(Seen(anyio.current_time(), [*self.shown.values()]))
            seen = len(sends)
            await anyio.sleep(0.02)

    def refuse_edits(self) -> None:
        refusal = Refusal(403, {"errcode": "M_FORBIDDEN", "error": TOO_LONG_AGO})
        self.proxy.rule = lambda method, path: (
            refusal
            if method == "PUT" and "/send/" in path and "-" in path.rpartition("/")[2]
            else None
        )

    def throttle_next_edit(self) -> None:
        limit = Refusal(429, {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 300})
        self.proxy.disturb_once("/send/", limit)


@asynccontextmanager
async def matrix(folder: Path, server: Synapse) -> AsyncIterator[MatrixScreen]:
    lin, account = await people(server, "lin", "bot")
    room = await lin.make_room(account)
    await account.join(room)
    async with (
        RecordingProxy(server.port) as proxy,
        running(folder, proxy, account) as bot,
        anyio.create_task_group() as tasks,
    ):
        await bot.connected()
        screen = MatrixScreen(proxy, bot.adapter, key_of(room), account.user_id)
        tasks.start_soon(screen.follow)
        yield screen
        tasks.cancel_scope.cancel()


Opener = Callable[[Path], AbstractAsyncContextManager[Screen]]
SCREENS: dict[str, Opener] = {"telegram": telegram, "discord": discord}
ALL = ["telegram", "discord", pytest.param("matrix", marks=pytest.mark.long)]
