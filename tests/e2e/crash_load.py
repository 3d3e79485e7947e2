"""Asks numbered questions in many groups and answers them with a model, for the tests that kill
processes: `tests.e2e.crash` and `tests.e2e.cluster.crash`."""

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from tests.e2e.crash_judge import (
    ANSWERED,
    ASKED,
    FIRST_GROUP,
    Question,
    given_up,
    on_the_wire,
    questions,
    unknown,
)
from tests.e2e.read_database import StoreLook
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import Answer, Asked, Call

MOST_A_REPLY = 8
"""How many messages one run may send (`DeliverySettings.sends_per_run`)."""
TOKEN = "crash-test-token"
CALL_S = 0.2
"""The time that the platform takes for a call, in seconds. It is so long that a kill usually hits
some calls."""
_NOT_SAID = ("+ it called", "+ refused by the platform", "+ never sent")
"""Lines of a prompt that begin so are about calls, or about messages that nobody has seen."""


class AskedLoad(Protocol):
    """The questions of one round."""

    @property
    def messages(self) -> int:
        """The number of questions. If it is 0, people ask until one second after the last kill."""

    @property
    def chats(self) -> int: ...

    @property
    def per_second(self) -> float: ...

    @property
    def duplicates(self) -> float:
        """The share of the events that arrive twice."""

    @property
    def seed(self) -> int: ...


def reply(asked: Asked) -> Answer:
    """The model's reply. It answers each question of the prompt for which the prompt has no answer.
    If there are more answers than a run may send, some messages contain several answers."""
    asking: dict[Question, None] = {}
    answered: set[Question] = set()
    for line in _told(asked):
        asking |= dict.fromkeys(questions(ASKED, line))
        answered |= set(questions(ANSWERED, line))
    todo = [f"ans{chat}x{n}y" for chat, n in asking if (chat, n) not in answered]
    size = max(1, -(-len(todo) // MOST_A_REPLY))
    texts = [" ".join(todo[start : start + size]) for start in range(0, len(todo), size)]
    if "tools" in asked.body:
        calls = [Call("send_channel_message", {"text": text}) for text in texts]
        return Answer(calls=calls, delay_s=0.01)
    lines = [f'send_channel_message("{text}")\n' for text in texts]
    return Answer(chunks=["```python\n", *(lines or ["pass\n"]), "```"], delay_s=0.01)


def _told(asked: Asked) -> Iterator[str]:
    """The lines of a prompt that show messages which people have seen. Code and calls from before a
    restart are left out, since the restart may have stopped them."""
    for message in asked.messages:
        # This is a reply of the present attempt. Its code has run completely.
        if message["role"] == "assistant":
            yield json.dumps(message)
        if message["role"] != "user":
            continue
        content = message["content"]
        parts = [content] if isinstance(content, str) else [p.get("text", "") for p in content]
        code = False
        for line in "\n".join(parts).splitlines():
            if line.startswith("["):
                code = line.startswith("[before]")
            elif not (code and line.startswith("> ")) and not line.startswith(_NOT_SAID):
                yield line


@dataclass(slots=True)
class Questions:
    """The questions that people have asked so far.

    Attributes:
        peer_of: The account of each chat.
        counts: The number of questions of each chat.
        times: When each question was asked, in seconds of anyio's clock.
        unsent: The questions that were asked while the account had no connection. Only the
            platform's history has them.
    """

    peer_of: Mapping[int, OneBotPeer]
    counts: Counter[int] = field(default_factory=Counter)
    times: dict[Question, float] = field(default_factory=dict)
    unsent: set[Question] = field(default_factory=set)

    async def ask(self, chat: int, since: float | None = None) -> None:
        """Ask the next question in a chat. ``since`` is the time from which the person has wanted
        to ask; None is now."""
        peer, question = self.peer_of[chat], (chat, self.counts[chat])
        self.counts[chat] += 1
        self.times[question] = anyio.current_time() if since is None else since
        if not peer.connected:
            self.unsent.add(question)
        what = f"ask{chat}x{question[1]}y"
        await peer.say_in_group(FIRST_GROUP + chat, 10000 + chat, what, at_me=True)


async def ask(load: AskedLoad, asked: Questions, *, ended: anyio.Event) -> None:
    """Ask the number of questions that the load names. If it names 0, ask until one second after
    ``ended``. What happens to the bot does not matter."""
    chance = random.Random(load.seed)
    began = anyio.current_time()
    end = float("inf")
    for position in itertools.count():
        if ended.is_set() and end == float("inf"):
            end = anyio.current_time() + 1.0
        if position >= load.messages > 0 or (not load.messages and anyio.current_time() > end):
            return
        await anyio.sleep_until(began + position / load.per_second)
        chat = position % load.chats
        await asked.ask(chat)
        if chance.random() < load.duplicates:
            peer = asked.peer_of[chat]
            await peer.emit(peer.account.history["group", str(FIRST_GROUP + chat)][-1])


async def until_answered(
    asked: Mapping[int, int],
    peer_of: Mapping[int, OneBotPeer],
    look: StoreLook,
    within: float = 240.0,
) -> None:
    """Wait until each question has an answer, has an answer with unknown outcome, or belongs to a
    turn that was given up. Stop waiting when no question was settled in this way for a minute, or
    after ``within`` seconds. Then wait 2 more seconds, so that an answer that is sent twice is
    seen."""
    peers = [*{peer.self_id: peer for peer in peer_of.values()}.values()]
    with anyio.move_on_after(within):
        before, still = -1, 0
        while still < 120:
            stored = await look.column("SELECT COUNT(*) FROM messages WHERE author = 'person'")
            done = set(on_the_wire(peers))
            done |= await unknown(look) | await given_up(look)
            expected = sum(count for chat, count in asked.items() if peer_of[chat].has_history)
            busy = await look.column(
                "SELECT 1 FROM turns WHERE running_chat IS NOT NULL "
                "UNION ALL SELECT 1 FROM deliveries WHERE state IN ('pending', 'sending')"
            )
            if len(done) >= stored[0] and stored[0] >= expected and not busy:
                break
            before, still = len(done), still + 1 if len(done) == before else 0
            await anyio.sleep(0.5)
    await anyio.sleep(2.0)


def log_problems(log: str) -> str:
    """The warnings and errors of a log: all, or the first 20 and the last 20."""
    lines = [line for line in log.splitlines() if "[WARNING]" in line or "[ERROR]" in line]
    return "\n".join(lines if len(lines) < 40 else [*lines[:20], "...", *lines[-20:]])
