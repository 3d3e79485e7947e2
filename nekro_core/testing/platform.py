"""Simulates a chat platform in memory. It accepts every message and keeps it for the test."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from nekro_core.chat import (
    ChatKey,
    Delivery,
    DeliveryState,
    File,
    Image,
    Mention,
    Receipt,
    Reply,
    Segments,
    Text,
    Video,
    Voice,
    plain_text,
)
from nekro_core.delivery.adapter import Capabilities

NAME = "test"
ACCOUNT = "bot"

_CAN = Capabilities(
    inline=frozenset({Text, Mention, Reply, Image}),
    alone=frozenset({Voice, Video, File}),
    edit_every_s=0.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One message that a chat got, as it looks by now.

    Attributes:
        chat_key: The text form of the chat's key, for example ``test-private_lin``.
        message_id: The id that the test platform gave: ``sent-1``, ``sent-2``, ...
        segments: What the message holds now; an edit replaces it.
        run_id: The run that sent it, empty where no run did.
    """

    chat_key: str
    message_id: str
    segments: Segments
    run_id: str = ""

    @property
    def text(self) -> str:
        """What a person would read aloud; ``[image]``, ``[file: a.txt]`` for what is none."""
        return plain_text(self.segments)

    @property
    def files(self) -> tuple[bytes, ...]:
        """The pictures, sounds and files in it."""
        media = (each.media for each in self.segments if isinstance(each, Image | Voice | File))
        return tuple(Path(medium.path).read_bytes() for medium in media)


class TestPlatform:
    """An `Adapter`. If ``answer`` is set, every send returns it and no message appears: a refusal,
    an offline account, or an unknown outcome."""

    __test__ = False  # a class of pytest's own by its name alone

    def __init__(self) -> None:
        self.name = NAME
        self.sent: list[Sent] = []
        self.answer: Receipt | None = None
        self._numbers = itertools.count(1)
        self._news = anyio.Event()

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        """See `Adapter.capabilities`.

        Args:
            chat_key: The chat; every chat gets the same answer.

        Returns:
            Text, mentions, replies and pictures share a call; voice, video and files go alone. Sent
            messages can be edited at any pace.
        """
        del chat_key
        return _CAN

    async def send(self, delivery: Delivery) -> Receipt:
        """See `Adapter.send`.

        Args:
            delivery: What to send. A picture, voice or file in it must exist on the disk.

        Returns:
            ``answer`` where it is set; ``rejected`` where a medium's file is missing; else ``sent``
            with the new message's id.
        """
        if self.answer is not None:
            return self.answer
        if problem := _missing(delivery.segments):
            return Receipt(state=DeliveryState.REJECTED, reason=problem)
        sent = Sent(
            chat_key=str(delivery.chat_key),
            message_id=f"sent-{next(self._numbers)}",
            segments=delivery.segments,
            run_id=delivery.run_id,
        )
        self.sent.append(sent)
        self._tell()
        return Receipt(state=DeliveryState.SENT, message_id=sent.message_id)

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        """See `SupportsEditing.edit`.

        Args:
            message_id: The id of a message in ``sent``.
            delivery: Its segments replace those of the message.

        Returns:
            ``sent``, or ``rejected`` where there is no message of that id.
        """
        for place, sent in enumerate(self.sent):
            if sent.message_id == message_id:
                self.sent[place] = replace(sent, segments=delivery.segments)
                self._tell()
                return Receipt(state=DeliveryState.SENT, message_id=message_id)
        return Receipt(state=DeliveryState.REJECTED, reason=f"there is no message {message_id}")

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        """See `Adapter.own_accounts`.

        Args:
            chat_key: The chat; every chat gets the same answer.

        Returns:
            The one account of the bot under test.
        """
        del chat_key
        return frozenset({ACCOUNT})

    async def start(self) -> None:
        """There is nothing to listen to: a test speaks."""

    async def aclose(self) -> None:
        """There is nothing to end."""

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what was sent fulfils a condition.

        Args:
            condition: Called at once and after each send and edit. Waiting ends when it gives true;
                there is no time limit.
        """
        while not condition():
            await self._news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()


def _missing(segments: Segments) -> str:
    for each in segments:
        if isinstance(each, Image | Voice | File) and not Path(each.media.path).is_file():
            return f"there is no file {each.media.path or each.media.url}"
    return ""
