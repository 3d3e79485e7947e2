"""Plays conversations. Starts the bots that they need, and plays several conversations at a
time."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx

from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.scenarios.chats import Chat, NamedAccount, QQGroup, WebRoom
from tests.e2e.scenarios.replies import ModelReply, ReplyKey, changed
from tests.e2e.scenarios.scenario import WORDINGS, Conversation
from tests.e2e.scenarios.scene import NoReply, Outcome, Request, Scene, message_text
from tests.e2e.scenarios.tool_plugins import PLUGINS
from tests.e2e.scenarios.unstable import MarkUnknown, from_stored
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import Answer, Asked, Reply, ScriptedModelServer

AT_ONCE = 6
"""Maximum number of conversations that are played at the same time. A conversation mostly waits, so
several share the processor well."""
PATIENCE_S = 150.0
"""Maximum seconds until the bot has handled what happened in a chat, on a busy machine."""
_TOKEN = "token-of-the-scenarios"
_CHAT = re.compile(r"^\[chat\] (\S+): (?:a|the) ", re.MULTILINE)
_SETTINGS = {
    "NEKRO_LLM__MODEL": "large",
    "NEKRO_LLM__VISION": "true",
    "NEKRO_LLM__CONTEXT_TOKENS": "128000",
    "NEKRO_LLM__RETRIES": "0",
    "NEKRO_LLM__FIRST_TOKEN_S": "6000",
    "NEKRO_LLM__TOTAL_S": "7200",
    "NEKRO_AGENT__TURN__MAX_SECONDS": "7200",
    "NEKRO_AGENT__TIMEZONE": "Europe/Berlin",
    "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
    "NEKRO_SANDBOX__PACKAGES": "true",
    "NEKRO_SANDBOX__TOTAL_WAIT_SECONDS": "120",
    "ONEBOT_ACCESS_TOKEN": _TOKEN,
}
_MORE_SETTINGS = {"hurried": {"NEKRO_SANDBOX__RUN_SECONDS": "8"}}

_STARTING = anyio.Lock()

AskSomebody = Callable[[Scene, Request, int], Awaitable[ModelReply]]
"""Returns the reply to a request. The number counts the requests of a scenario that have the same
`reply_key`, from 1."""


@dataclass
class Playing:
    """One conversation with the replies of one wording."""

    conversation: Conversation
    wording: str
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def mode(self) -> str:
        return self.conversation.modes[WORDINGS.index(self.wording)]


def reply_key(scene: Scene, request: Request) -> ReplyKey:
    """Return the key under which the replies to requests like this one are stored."""
    branch = scene.branch(request)
    return request.part, f"{scene.wording}, {branch}" if branch else scene.wording


class StoredReplies:
    """Answers requests with stored replies."""

    def __init__(self, replies: dict[ReplyKey, list[ModelReply]]) -> None:
        self._replies = replies

    async def __call__(self, scene: Scene, request: Request, number: int) -> ModelReply:
        stored = self._replies.get(reply_key(scene, request), [])
        if number > len(stored):
            raise NoReply(
                f"request {number} has no stored reply: the conversation went another way"
            )
        try:
            return changed(stored[number - 1], partial(from_stored, request=request.text))
        except MarkUnknown as error:
            raise NoReply(str(error)) from error


async def play(
    folder: Path,
    conversations: Sequence[Conversation],
    wordings: str,
    ask: AskSomebody,
    *,
    at_once: int = AT_ONCE,
    patience_s: float = PATIENCE_S,
) -> list[Outcome]:
    """Play each conversation once in each of the given wordings. A wording that the conversation
    does not have is skipped. Returns the outcomes, sorted by number and wording."""
    playing = [
        each
        for conversation in conversations
        for wording in wordings
        if (each := Playing(conversation, wording)).mode
    ]
    limiter = anyio.CapacityLimiter(at_once)
    shared: dict[str, list[Playing]] = {}
    for place, each in enumerate(playing):
        name = each.conversation.bot
        shared.setdefault(f"{name}{place}" if name == "alone" else name, []).append(each)
    async with anyio.create_task_group() as tasks:
        for name, some in shared.items():
            tasks.start_soon(_play_with_one_bot, folder / name, some, ask, limiter, patience_s)
    found = [outcome for each in playing for outcome in each.outcomes]
    return sorted(found, key=lambda each: (each.number, each.wording))


async def _play_with_one_bot(
    folder: Path,
    playing: Sequence[Playing],
    ask: AskSomebody,
    limiter: anyio.CapacityLimiter,
    patience_s: float,
) -> None:
    async with AsyncExitStack() as stack:
        alone = playing[0].conversation.bot == "alone"
        if alone:
            await stack.enter_async_context(limiter)
        stage = await stack.enter_async_context(_stage(folder, playing))

        async def one(index: int, each: Playing) -> None:
            scene = stage.scene(index, each, ask, patience_s)
            await each.conversation.play(scene)
            each.outcomes = scene.outcomes

        async def limited(index: int, each: Playing) -> None:
            async with limiter:
                await one(index, each)

        async with anyio.create_task_group() as tasks:
            for index, each in enumerate(playing):
                tasks.start_soon(one if alone else limited, index, each)


@dataclass
class _Stage:
    """A running bot with its fake OneBot implementation, its chat page and its model."""

    bot: BotProcess
    peer: OneBotPeer
    web: httpx.AsyncClient
    scenes: dict[str, Scene]

    def scene(self, index: int, each: Playing, ask: AskSomebody, patience_s: float) -> Scene:
        def room(name: str) -> Chat:
            return WebRoom(self.web, name)

        scene = Scene(
            self._chat(index, each),
            self.bot,
            wording=each.wording,
            mode=each.mode,
            patience_s=patience_s,
            ask=ask,
            room=room,
        )
        self.scenes[scene.chat.key] = scene
        return scene

    def _chat(self, index: int, each: Playing) -> Chat:
        if each.conversation.place == "qq":
            return QQGroup(self.peer, _group(index))
        return WebRoom(self.web, _room(index, each.conversation))

    async def reply(self, asked: Asked) -> Reply:
        """Return the model's reply for the scene whose chat the prompt names."""
        told = "\n".join(map(message_text, asked.messages[:2]))
        found = _CHAT.search(told)
        if found is None or found[1] not in self.scenes:
            return Answer(status=400, error={"message": "a prompt of no chat"})
        return await self.scenes[found[1]].reply(asked)


@asynccontextmanager
async def _stage(folder: Path, playing: Sequence[Playing]) -> AsyncIterator[_Stage]:
    scenes: dict[str, Scene] = {}
    stages: list[_Stage] = []

    async def reply(asked: Asked) -> Reply:
        return await stages[0].reply(asked)

    bot_name = playing[0].conversation.bot
    folder.mkdir(parents=True, exist_ok=True)
    if bot_name == "plugins":
        plugins = folder / "data" / "plugins"
        plugins.mkdir(parents=True)
        for name, source in PLUGINS.items():
            (plugins / name).write_text(source)
    modes = {_key(index, each): each.mode for index, each in enumerate(playing)}
    async with ScriptedModelServer(reply) as model:
        settings = {
            **_SETTINGS,
            **_MORE_SETTINGS.get(bot_name, {}),
            "NEKRO_LLM__BASE_URL": model.base_url,
            "NEKRO_AGENT__MODES": json.dumps(modes),
        }
        async with AsyncExitStack() as stack:
            async with _STARTING:  # starting several bots at once would take longer
                bot = await stack.enter_async_context(running_bot(folder, **settings))
            peer = OneBotPeer("20002", _TOKEN, bot.onebot_url)
            peer.account = NamedAccount("20002")
            web = httpx.AsyncClient(
                base_url=f"{bot.address}/api/v1",
                headers={"Authorization": f"Bearer {bot.token}"},
                timeout=60,
                # The client keeps no connection open, because the bot could close it just when the
                # client uses it again.
                limits=httpx.Limits(max_keepalive_connections=0),
                trust_env=False,
            )
            async with peer, web:
                await peer.wait_connected()
                stages.append(_Stage(bot, peer, web, scenes))
                yield stages[0]


def _group(index: int) -> int:
    return 40001 + index


def _room(index: int, conversation: Conversation) -> str:
    return "private_Lin" if conversation.place == "private" else f"group_Room{index + 1}"


def _key(index: int, each: Playing) -> str:
    if each.conversation.place == "qq":
        return f"onebot_v11-group_{_group(index)}"
    return f"web-{_room(index, each.conversation)}"


def told(outcomes: Sequence[Outcome]) -> Any:
    """Return the faults of the outcomes as text for an assertion's message."""
    return "\n".join(
        f"{each.number} {each.wording} ({each.mode}, {each.calls} calls): {fault}"
        for each in outcomes
        for fault in each.faults
    )
