"""Runs the whole bot with an OneBot peer, the web API and a model that has a script for each chat.
One process serves all tests of a module, and each test uses its own chats.
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
"""Maximum number of seconds that a test waits for one thing. It is long because the machine may be
busy."""
WELL = "all is well"
_CHAT = re.compile(r"^\[chat\] (\S+)(?:, a |: (?:a|the) )", re.MULTILINE)
"""Finds the chat in a prompt, in the present form and in the form before November 2026."""


def fence(code: str) -> str:
    """A reply that consists of this code in a fence."""
    return f"```python\n{code}\n```"


class WholeBot:
    """A running bot, its peer and its model."""

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
        """The number of a new group. In this group the model gives these replies, and after them it
        always sends `WELL`."""
        group = next(self._groups)
        self.model.replies[f"onebot_v11-group_{group}"] += replies
        return group

    def said(self, group: int) -> list[str]:
        """The texts that the bot has sent to the group."""
        return [call.text for call in self._sent_to(group) if "message" in call.params]

    def files(self, group: int) -> list[str]:
        """The contents of the text files that the bot has sent to the group."""
        given = [call.params["file"] for call in self._sent_to(group) if "file" in call.params]
        return [b64decode(file.removeprefix("base64://")).decode() for file in given]

    def _sent_to(self, group: int) -> list[Call]:
        return [call for call in self.peer.sends if call.params.get("group_id") == group]

    async def answers(self, group: int, count: int = 1, within: float = LONG_S) -> list[str]:
        """Wait until the bot has sent ``count`` texts to the group. Returns all of them."""
        await self.peer.until(lambda: len(self.said(group)) >= count, within)
        return self.said(group)

    async def ask(self, group: int, what: Any = "hello", **more: Any) -> list[str]:
        """Mention the bot in a group and wait for its next text. Return the texts that it sent
        since then."""
        before = len(self.said(group))
        await self.peer.say_in_group(group, 10001, what, at_me=True, **more)
        return (await self.answers(group, before + 1))[before:]

    async def others_are_served(self) -> None:
        """Check that another chat gets its answer."""
        assert await self.ask(self.group()) == [WELL]

    def prompts(self, group: int) -> list[Asked]:
        """The requests to the model for a group."""
        return self.model.asked[f"onebot_v11-group_{group}"]

    def stored(self, group: int) -> list[list[dict[str, Any]]]:
        """The segments of each stored message that people wrote in a group."""
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
        """Read the bot's database while the bot runs."""
        connection = sqlite3.connect(f"file:{self.bot.data / 'nekro.sqlite3'}?mode=ro", uri=True)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()

    async def logged(self, words: str, within: float = LONG_S) -> None:
        """Wait until the log has the words."""
        await until(lambda: words in self.bot.log, within)


async def until(condition: Callable[[], bool], within: float = LONG_S) -> None:
    """Wait until the condition is true."""
    with anyio.fail_after(within):
        while not condition():
            await anyio.sleep(0.02)


class ModelByChat:
    """A model with separate replies for each chat. It stores every request by its chat."""

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = defaultdict(list)
        self.asked: dict[str, list[Asked]] = defaultdict(list)

    def __call__(self, asked: Asked) -> Reply:
        told = (text_of(m) for m in asked.messages if m["role"] in ("system", "user"))
        found = _CHAT.search("\n".join(told))
        if found is None:
            return Answer(status=400, error={"message": "a prompt of no chat"})
        self.asked[found[1]].append(asked)
        waiting = self.replies[found[1]]
        return waiting.pop(0) if waiting else fence(f"send_channel_message({WELL!r})")


def text_of(message: Mapping[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


@asynccontextmanager
async def whole_bot(folder: Path, **settings: str) -> AsyncIterator[WholeBot]:
    """A running bot with a connected OneBot account. ``settings`` are named as in ``.env``."""
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
    """The bot's settings for its model, and the access token of the peer."""
    return {
        "NEKRO_LLM__BASE_URL": model.base_url,
        "NEKRO_LLM__MODEL": "scripted",
        "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
        "ONEBOT_ACCESS_TOKEN": TOKEN,
    }
