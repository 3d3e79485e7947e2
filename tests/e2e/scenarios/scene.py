"""One conversation while it is played: what people write and see, and what the model is asked."""

import re
import sqlite3
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from nekro_core.cli.plugin_kit.check_report import token_counter
from nekro_core.llm.tokens import IMAGE_TOKENS
from tests.e2e.bot_process import BotProcess
from tests.e2e.scenarios.chats import Chat, QQGroup
from tests.e2e.scenarios.replies import ModelReply
from tests.e2e.stages import Medium, Seen
from tests.peers.scripted_model import Answer, Asked, Call, Reply, pieces

QUIET_S = 0.4
"""If nothing has happened in a chat for this many seconds, the bot has handled all messages."""
Given = str | ModelReply | Answer | Callable[[], str]


class NoReply(Exception):
    """There is no reply to a request. The text says why."""


@dataclass
class Request:
    """A request to the model, and the reply if there is one."""

    asked: Asked
    part: int
    reply: ModelReply | None = None

    @property
    def text(self) -> str:
        """All texts of the request's messages."""
        return "\n".join(map(message_text, self.asked.messages))

    @property
    def tokens(self) -> int:
        """The number of o200k tokens of the prompt, including the functions of tool mode."""
        body = self.text + str(self.asked.body.get("tools") or "")
        return token_counter().count(body) + IMAGE_TOKENS * len(self.pictures)

    @property
    def pictures(self) -> list[str]:
        """The request's pictures as data URLs."""
        return [
            part["image_url"]["url"]
            for message in self.asked.messages
            if isinstance(message["content"], list)
            for part in message["content"]
            if part["type"] == "image_url"
        ]


@dataclass
class Outcome:
    """The result of one scenario, played with one of the stored wordings of the model's replies
    (see `WORDINGS`)."""

    number: int
    wording: str
    mode: str
    could: int
    why: str = ""
    calls: int = 0
    tokens: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def judged(self) -> str:
        if self.faults:
            return "failed"
        return "ok" if self.calls <= self.could else "flawed"


class Scene:
    """A conversation in one chat of one bot."""

    def __init__(
        self,
        chat: Chat,
        bot: BotProcess,
        *,
        wording: str,
        mode: str,
        patience_s: float,
        ask: Callable[["Scene", Request, int], Awaitable[ModelReply]],
        room: Callable[[str], Chat],
    ) -> None:
        self.chat = chat
        self.bot = bot
        self.wording = wording
        self.mode = mode
        self.outcomes: list[Outcome] = []
        self.requests: list[Request] = []
        self.messages: list[Seen] = []
        """What people have seen since the scenario began."""
        self.part_number = 0
        self._patience_s = patience_s
        self._ask = ask
        self.room = room
        self._given: deque[Given] = deque()
        self._open = anyio.Event()
        self._open.set()
        self._said = 0
        self._asked_somebody: Counter[str] = Counter()
        self.branch: Callable[[Request], str] = _no_branch
        """Returns the name of a random result that a request shows, to choose the stored reply that
        fits it; empty if there is no such result."""
        self._all: list[Seen] = []

    # -- what people do --------------------------------------------------------------------

    async def say(
        self,
        who: str,
        words: str,
        *,
        to_bot: bool = True,
        reply_to: str = "",
        media: Sequence[Medium] = (),
    ) -> str:
        """Write a message as the person ``who``. Returns the message's id."""
        self._said += 1
        return await self.chat.say(who, words, to_bot=to_bot, reply_to=reply_to, media=media)

    async def ask(self, who: str, words: str, **more: object) -> str:
        """Write a message as the person ``who``, and wait until the bot has done everything that
        the message causes. Returns the texts that people have seen since the scenario began."""
        await self.say(who, words, **more)  # type: ignore[arg-type]
        await self.settled()
        return self.told

    @property
    def qq(self) -> QQGroup:
        """The chat as a group of QQ."""
        assert isinstance(self.chat, QQGroup)
        return self.chat

    async def settled(self, turns: int = 0) -> None:
        """Wait until the bot has decided about every message of people and no turn runs. At least
        ``turns`` turns must have ended in the chat."""
        with anyio.fail_after(self._patience_s):
            quiet = 0.0
            while quiet < QUIET_S:
                quiet = quiet + 0.1 if self._is_quiet(turns) else 0.0
                await anyio.sleep(0.1)
        await self._look()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition is true."""
        with anyio.fail_after(self._patience_s):
            while not condition():
                await self._look()
                await anyio.sleep(0.1)

    @asynccontextmanager
    async def model_thinks(self) -> AsyncIterator[None]:
        """While the block is open, the model receives the next request and does not answer it."""
        self._open = anyio.Event()
        yield
        self._open.set()

    async def asked(self, count: int) -> None:
        """Wait until the model has received ``count`` requests in this conversation."""
        await self.until(lambda: len(self.requests) >= count)

    def give(self, *replies: Given) -> None:
        """Set the next replies of the model. The scenario itself chooses them."""
        self._given += replies

    # -- what is checked --------------------------------------------------------------------

    @asynccontextmanager
    async def part(
        self, number: int, could: int, why: str = "", *, tools: int = 0, stops: str = "finished"
    ) -> AsyncIterator[None]:
        """One scenario of the conversation.

        Args:
            number: The scenario's number.
            could: How many model calls are enough.
            why: Why ``could`` differs from the number in the list of scenarios.
            tools: How many model calls are enough in tool mode; 0: as many as ``could``.
            stops: A pattern for the reasons why the turns may end.
        """
        if tools and self.mode == "tools":
            could = tools
        outcome = Outcome(number, self.wording, self.mode, could, why)
        self.outcomes.append(outcome)
        self.part_number = number
        self._asked_somebody.clear()
        await self._look()
        began, turns, first = len(self._all), len(self._stops()), len(self.requests)
        self._part_began = began
        self.messages = []
        try:
            yield
        except TimeoutError:
            outcome.faults.append(f"nothing happened for {self._patience_s:g} s")
        except Exception as error:  # noqa: BLE001 - what cannot be read is a fault of this scenario
            outcome.faults.append(str(error) or repr(error))
        for stop in self._stops()[turns:]:
            if not re.fullmatch(stops, stop):
                outcome.faults.append(f"a turn ended with {stop!r}")
        answered = [each for each in self.requests[first:] if each.reply is not None]
        outcome.calls = len(answered)
        outcome.tokens = sum(each.tokens for each in answered)

    @property
    def texts(self) -> list[str]:
        """The texts that people have seen since the scenario began."""
        return [each.text for each in self.messages if each.text.strip()]

    @property
    def told(self) -> str:
        """All texts that people have seen since the scenario began, one per line."""
        return "\n".join(self.texts)

    def media(self, kind: str) -> list[Medium]:
        """The media that people have seen since the scenario began: ``picture``, ``voice``,
        ``file``."""
        return [each for message in self.messages for each in message.media if each.kind == kind]

    def says(self, *patterns: str) -> None:
        """Check that people were told something. Upper or lower case and thousands separators do
        not matter."""
        plain = re.sub(r"(?<=\d)[,  _'](?=\d{3})", "", self.told)
        for pattern in patterns:
            assert re.search(pattern, plain, re.IGNORECASE), (
                f"nobody was told {pattern!r}: {plain[-600:]!r}"
            )

    def never_says(self, *patterns: str) -> None:
        """Check that people were not told something."""
        for pattern in patterns:
            found = re.search(pattern, self.told, re.IGNORECASE)
            assert not found, f"people were told {found[0]!r}: {self.told[-600:]!r}"

    def one(self, kind: str) -> Medium:
        """Return the only medium of a kind."""
        found = self.media(kind)
        assert len(found) == 1, f"{len(found)} of {kind}, one was expected: {self.told[-600:]!r}"
        return found[0]

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Read the bot's database. ``?`` in the query is the chat key."""
        path = self.bot.data / "nekro.sqlite3"
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return connection.execute(query, (self.chat.key,)).fetchall()
        finally:
            connection.close()

    def prompt(self, index: int = -1) -> str:
        """The text of a request to the model."""
        return self.requests[index].text

    # -- the model -------------------------------------------------------------------------

    async def reply(self, asked: Asked) -> Reply:
        """The reply of the model to a request."""
        request = Request(asked, self.part_number)
        self.requests.append(request)
        await self._open.wait()
        if self._given:
            given = self._given.popleft()
            if isinstance(given, Answer):
                request.reply = ModelReply() if given.status == 200 else None
                return given
            words = given() if callable(given) else given
            request.reply = ModelReply(words) if isinstance(words, str) else words
        else:
            try:
                branch = self.branch(request)
                request.reply = await self._ask(self, request, self._asked_somebody[branch] + 1)
            except NoReply as reason:
                self.outcomes[-1].faults.append(str(reason))
                return Answer(status=503, error={"message": str(reason)})
            self._asked_somebody[branch] += 1
        return _answer(request.reply, len(self.requests))

    def _is_quiet(self, turns: int) -> bool:
        query = "SELECT decision FROM messages WHERE chat_key = ? AND author = 'person'"
        decisions = [decision for (decision,) in self.rows(query)]
        if len(decisions) < self._said or not all(decisions):
            return False
        stops = self._stops()
        return all(stops) and len(stops) >= turns

    def _stops(self) -> list[str]:
        rows = self.rows("SELECT stop FROM turns WHERE chat_key = ? ORDER BY id")
        return [str(stop) for (stop,) in rows]

    async def _look(self) -> None:
        self._all = await self.chat.seen()
        self.messages = self._all[getattr(self, "_part_began", 0) :]


def _no_branch(_request: Request) -> str:
    return ""


def message_text(message: dict[str, object]) -> str:
    """Return the words of one message of a request."""
    content = message["content"]
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part["type"] == "text")
    return str(content or "")


def _answer(reply: ModelReply, step: int) -> Answer:
    calls = [
        Call(each["name"], each.get("args") or {}, f"call_{step}_{place}")
        for place, each in enumerate(reply.calls)
    ]
    return Answer(chunks=pieces(reply.text), calls=calls, reason=reply.finish, seed=step)
