"""The interface of a stage: one platform on which a test lets a person talk with the bot."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.e2e.bot_process import BotProcess


@dataclass(frozen=True, slots=True)
class Medium:
    """A medium that a person sends or gets. ``kind`` is ``picture``, ``voice`` or ``file``. If the
    platform has no voices, a voice is sent as a file and its kind is ``file``."""

    kind: str
    name: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Seen:
    """A message of the bot as the person's client shows it.

    ``mentions`` are the platform ids of the mentioned people. ``text`` does not contain the
    characters of the mentions. ``reply_to`` is the id of the message to which this message replies;
    empty if it is not a reply. ``media`` are downloaded in the same way as the client does it.
    """

    message_id: str
    text: str = ""
    mentions: tuple[str, ...] = ()
    reply_to: str = ""
    media: tuple[Medium, ...] = ()


@dataclass(frozen=True, slots=True)
class WireLine:
    """One request, answer or event between the bot and the platform, for the page in ``docs/wire``.

    ``what`` is its name, the same in every run: an action, or a method and a path with ``{}`` for
    the parts that vary. ``body`` is the JSON that was sent.
    """

    to_bot: bool
    what: str
    body: Any = None


class Stage(Protocol):
    """One platform with one group. The bot's account and one person are its members.

    An `Opener` makes the stage and starts the platform. Then the bot is started with ``settings``,
    and `join` connects them. `say` and `hand_over` return the platform's id of the message.
    """

    name: str
    """The name of the page's file in ``docs/wire`` without ``.md``, for example ``onebot_v11``."""
    title: str
    """The name that people use, for example ``OneBot v11``."""
    settings: Mapping[str, str]
    """The bot's settings for the platform, by their names in ``.env``."""
    chat_key: str
    """The chat key of the group. This attribute and the next ones may be unset before `join`."""
    bot_id: str
    person_id: str
    wire: list[WireLine]
    cannot: Mapping[str, str]
    """The messages of the person that are left out on this stage. A key is ``reply``, ``picture``,
    ``voice`` or ``file``, and its value is the reason. The page lists them."""

    def join(self, bot: BotProcess) -> AbstractAsyncContextManager[None]:
        """Connect the account and bring the bot and the person into the group."""

    async def say(self, text: str, *, mention: bool = False, reply_to: str = "") -> str:
        """The person sends a text. It may begin with a mention of the bot or reply to a message."""

    async def hand_over(self, medium: Medium) -> str:
        """The person sends a picture, a voice or a file, without a mention."""

    async def seen(self, count: int, within: float = 30.0) -> list[Seen]:
        """Wait until the bot has sent ``count`` messages to the group. Returns all of its messages,
        in the order in which the group shows them."""


Opener = Callable[[Path], AbstractAsyncContextManager[Stage]]
"""Starts a platform in a folder of the test, on free ports of 127.0.0.1. Calls `pytest.skip` if
this machine lacks what the platform needs."""
