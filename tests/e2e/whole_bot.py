"""The whole bot in company: people at an OneBot peer and at the web API, a model with a script for
each chat. One process serves all tests of a module; each test talks in chats of its own.
"""

import itertools
import json
import re
import sqlite3
from base64 import b64decode
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx

from tests.e2e.bot_process import BotProcess, running_bot
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.onebot_v11.calls import Call
from tests.peers.scripted_model import Answer, Asked, Reply, ScriptedModelServer

TOKEN = "token-of-the-whole-bot"
LONG_S = 60.0
"""How long anything may take on a busy machine."""
WELL = "all is well"
_CHAT = re.compile(r"^\[chat\] (\S+), a ", re.MULTILINE)


def fence(code: str) -> str:
    """A reply of code alone."""
    return f"```python\n{code}\n```"


class WholeBot:
    """What a test talks to."""

    def __init__(self, bot: BotProcess, peer: OneBotPeer, model: "ModelByChat") -> None:
        self.bot = bot
        self.peer = peer
        self.model = model
        self.web = httpx.AsyncClient(
            base_url=f"{bot.address}/api/v1",
            headers={"Authorization": f"Bearer {bot.token}"},
            timeout=LONG_S,
            trust_env=False,
        )
        self._groups = itertools.count(40001)

    def group(self, *replies: Reply) -> int:
        """A new group, in which the model says these; after them that all is well."""
        group = next(self._groups)
        self.model.replies[f"onebot_v11-group_{group}"] += replies
        return group

    def said(self, group: int) -> list[str]:
        """The texts that the group got so far."""
        return [call.text for call in self._sent_to(group) if "message" in call.params]

    def files(self, group: int) -> list[str]:
        """What stands in the text files that the group got so far."""
        given = [call.params["file"] for call in self._sent_to(group) if "file" in call.params]
        return [b64decode(file.removeprefix("base64://")).decode() for file in given]

    def _sent_to(self, group: int) -> list[Call]:
        return [call for call in self.peer.sends if call.params.get("group_id") == group]

    async def answers(self, group: int, count: int = 1, within: float = LONG_S) -> list[str]:
        """What the group got, as soon as it has so many."""
        await self.peer.until(lambda: len(self.said(group)) >= count, within)
        return self.said(group)

    async def ask(self, group: int, what: Any = "hello", **more: Any) -> list[str]:
        """Somebody mentions the bot; what the group has got when the next message is there."""
        before = len(self.said(group))
        await self.peer.say_in_group(group, 10001, what, at_me=True, **more)
        return (await self.answers(group, before + 1))[before:]

    async def others_are_served(self) -> None:
        """A chat that has nothing to do with it gets its answer."""
        assert await self.ask(self.group()) == [WELL]

    def prompts(self, group: int) -> list[Asked]:
        """What the model was asked for a group."""
        return self.model.asked[f"onebot_v11-group_{group}"]

    def stored(self, group: int) -> list[list[dict[str, Any]]]:
        """The segments of what people wrote in a group, as the store has them."""
        rows = self.rows(
            "SELECT segments FROM messages WHERE chat_key = ? AND author = 'person' ORDER BY seq",
            f"onebot_v11-group_{group}",
        )
        return [json.loads(segments) for (segments,) in rows]

    def stops(self, group: int) -> list[str]:
        """Why each turn of a group ended."""
        query = "SELECT stop FROM turns WHERE chat_key = ? ORDER BY id"
        return [stop for (stop,) in self.rows(query, f"onebot_v11-group_{group}")]

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Look into the database beside the bot."""
        connection = sqlite3.connect(f"file:{self.bot.data / 'nekro.sqlite3'}?mode=ro", uri=True)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()

    async def logged(self, words: str, within: float = LONG_S) -> None:
        """Wait until the log has the words."""
        await until(lambda: words in self.bot.log, within)


async def until(condition: Callable[[], bool], within: float = LONG_S) -> None:
    """Wait until something outside is so."""
    with anyio.fail_after(within):
        while not condition():
            await anyio.sleep(0.02)


class ModelByChat:
    """The script: for each chat its own replies, and every request by its chat."""

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = defaultdict(list)
        self.asked: dict[str, list[Asked]] = defaultdict(list)

    def __call__(self, asked: Asked) -> Reply:
        found = _CHAT.search(next(_text(m) for m in asked.messages if m["role"] == "user"))
        if found is None:
            return Answer(status=400, error={"message": "a prompt of no chat"})
        self.asked[found[1]].append(asked)
        waiting = self.replies[found[1]]
        return waiting.pop(0) if waiting else fence(f"send_channel_message({WELL!r})")


def _text(message: Mapping[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


@asynccontextmanager
async def whole_bot(folder: Path, **settings: str) -> AsyncIterator[WholeBot]:
    """A running bot with an OneBot account connected; settings by their names in ``.env``."""
    script = ModelByChat()
    async with (
        ScriptedModelServer(script) as model,
        running_bot(folder, **(model_settings(model) | settings)) as bot,
        OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
    ):
        await peer.wait_connected()
        whole = WholeBot(bot, peer, script)
        async with whole.web:
            yield whole


def model_settings(model: ScriptedModelServer) -> dict[str, str]:
    """What a bot needs to know of its model, and the token that the peer offers."""
    return {
        "NEKRO_LLM__BASE_URL": model.base_url,
        "NEKRO_LLM__MODEL": "scripted",
        "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
        "ONEBOT_ACCESS_TOKEN": TOKEN,
    }
