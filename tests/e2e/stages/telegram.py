"""Plays a person on Telegram, with the tests' own Bot API server. See `stage.py`. If npm has
installed the server telegram-test-api, ours passes on to it the methods that it supports."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.e2e.bot_process import BotProcess
from tests.e2e.stages.stage import Medium, Seen, Stage, WireLine
from tests.peers.telegram import TOKEN, Call, TelegramPeer
from tests.peers.telegram.relay import missing, telegram_test_api

GROUP = -1001
PERSON = {"id": 10001, "is_bot": False, "first_name": "Lin"}
_KINDS = {"photo": "picture", "voice": "voice", "document": "file"}


@asynccontextmanager
async def telegram(_folder: Path) -> AsyncIterator[Stage]:
    """The server that the bot polls for updates."""
    async with AsyncExitStack() as stack:
        relay = "" if missing() else await stack.enter_async_context(telegram_test_api())
        yield TelegramStage(await stack.enter_async_context(TelegramPeer(relay=relay)))


class TelegramStage:
    name, title = "telegram", "Telegram"
    chat_key, bot_id = f"telegram-group_{GROUP}", TOKEN.partition(":")[0]
    person_id = str(PERSON["id"])
    cannot: Mapping[str, str] = {}

    def __init__(self, peer: TelegramPeer) -> None:
        self.wire: list[WireLine] = []
        self.settings = {
            "NEKRO_PLATFORMS": '["telegram"]',
            "TELEGRAM_BOTS": f'[{{"token": "{peer.token}", "api_server": "{peer.address}"}}]',
        }
        self._peer = peer
        peer.account.chat(GROUP)
        peer.on_call = self._note

    @asynccontextmanager
    async def join(self, bot: BotProcess) -> AsyncIterator[None]:
        await self._peer.until(lambda: bool(self._peer.polls), 30)
        yield

    async def say(self, text: str, *, mention: bool = False, reply_to: str = "") -> str:
        words = f"@{self._peer.username} {text}" if mention else text
        return await self._say(
            words, reply_to=int(reply_to.partition("@")[0]) if reply_to else None
        )

    async def hand_over(self, medium: Medium) -> str:
        account = self._peer.account
        match medium.kind:
            case "picture":
                return await self._say("", photo=account.photo(medium.data))
            case "voice":
                return await self._say("", voice=account.voice(medium.data))
        return await self._say("", document=account.document(medium.data, medium.name))

    async def seen(self, count: int, within: float = 30.0) -> list[Seen]:
        return [self._seen(call) for call in await self._peer.sent(count, within)]

    async def _say(self, text: str, **more: Any) -> str:
        message_id = await self._peer.say(GROUP, PERSON, text, **more)
        message = self._peer.account.messages[GROUP, message_id]
        self.wire.append(WireLine(True, "getUpdates: message", {"message": message}))
        return f"{message_id}@{GROUP}"

    def _note(self, call: Call) -> None:
        if call.method.startswith("send"):
            files = {name: f"{file.mime}, {file.name}" for name, file in call.files.items()}
            body = {**call.params, **({"files": files} if files else {})}
            self.wire.append(WireLine(False, call.method, body))

    def _seen(self, call: Call) -> Seen:
        message = call.result
        text = message.get("text", message.get("caption", ""))
        wide, mentions = text.encode("utf-16-le"), []
        for entity in reversed(message.get("entities", message.get("caption_entities", []))):
            if entity["type"] == "text_mention":
                begin, length = entity["offset"] * 2, entity["length"] * 2
                wide = wide[:begin] + wide[begin + length :]
                mentions.insert(0, str(entity["user"]["id"]))
        reply = call.params.get("reply_parameters")
        return Seen(
            f"{message['message_id']}@{GROUP}",
            wide.decode("utf-16-le"),
            tuple(mentions),
            f"{reply['message_id']}@{GROUP}" if reply else "",
            tuple(
                Medium(_KINDS[kind], upload.name if kind == "document" else "", upload.data)
                for kind in _KINDS
                if kind in call.params
                for upload in call.files.values()
            ),
        )
