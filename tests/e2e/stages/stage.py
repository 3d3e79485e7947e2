"""What a stage is."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.e2e.bot_process import BotProcess


@dataclass(frozen=True, slots=True)
class Medium:
    """What a person was sent, or sends. ``kind`` is ``picture``, ``voice`` or ``file``; where a
    platform has no voices, one that comes as a file is a ``file``."""

    kind: str
    name: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Seen:
    """A message of the bot as the person's own program shows it.

    ``mentions`` are platform ids, ``reply_to`` is the id of the answered message or empty. A
    mention's own characters are not in ``text``. ``media`` have been fetched as that program would.
    """

    message_id: str
    text: str = ""
    mentions: tuple[str, ...] = ()
    reply_to: str = ""
    media: tuple[Medium, ...] = ()


@dataclass(frozen=True, slots=True)
class WireLine:
    """One thing that went over the platform's wire, for the page in ``docs/wire``.

    ``what`` says what it is and has nothing in it that changes from run to run: an action, or a
    method and a path with ``{}`` for what varies. ``body`` is JSON, as it stood there.
    """

    to_bot: bool
    what: str
    body: Any = None


class Stage(Protocol):
    """One platform with one group, in which the bot's account and one person are.

    Made by an `Opener`, which brings the other side up; then the bot is started with ``settings``;
    then it is joined. ``say`` and its like return the platform's id of the message.
    """

    name: str
    """``onebot_v11``: the page's file name."""
    title: str
    """``OneBot v11``: as people call it."""
    settings: Mapping[str, str]
    """What the bot is told of the platform, by names in ``.env``."""
    chat_key: str
    """Of the group. Known once it is joined, as the following are."""
    bot_id: str
    person_id: str
    wire: list[WireLine]
    cannot: Mapping[str, str]
    """What the other side of this stage has not, with the reason: ``mention``, ``reply``,
    ``picture``, ``voice`` or ``file``, said by the person as a rule. That part is not played, and
    the page says so."""

    def join(self, bot: BotProcess) -> AbstractAsyncContextManager[None]:
        """The account is connected, and both are in the group."""

    async def say(self, text: str, *, mention: bool = False, reply_to: str = "") -> str:
        """The person writes, and may mention the bot in front or answer a message."""

    async def hand_over(self, medium: Medium) -> str:
        """The person sends a picture, a voice or a file, mentioning nobody."""

    async def seen(self, count: int, within: float = 30.0) -> list[Seen]:
        """Everything that the bot has sent to the group so far, as soon as it is so much; in the
        order in which it stands there."""


Opener = Callable[[Path], AbstractAsyncContextManager[Stage]]
"""Brings a platform up in a folder of the test's, on free ports of 127.0.0.1. Calls `pytest.skip`
where this machine lacks what it needs."""
