"""Simulates a chat platform in memory. It stores every message that the bot sends."""

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
    """A message that the bot sent to a chat, in its present form.

    Attributes:
        chat_key: The text form of the chat's key, for example ``test-private_lin``.
        message_id: The id that the simulated platform gave the message: ``sent-1``, ``sent-2``, ...
        segments: The content of the message. An edit replaces it.
        run_id: The run that sent the message; empty if no run sent it.
    """

    chat_key: str
    message_id: str
    segments: Segments
    run_id: str = ""

    @property
    def text(self) -> str:
        """The message as text. A segment without a text is replaced, for example by ``[image]`` or
        ``[file: a.txt]``."""
        return plain_text(self.segments)

    @property
    def files(self) -> tuple[bytes, ...]:
        """The bytes of the pictures, voices and files in the message."""
        media = (each.media for each in self.segments if isinstance(each, Image | Voice | File))
        return tuple(Path(medium.path).read_bytes() for medium in media)


class TestPlatform:
    """An `Adapter` whose platform is simulated. If ``answer`` is set, every send returns this
    receipt and stores no message. This simulates a refusal, an offline account or an unknown
    outcome."""

    __test__ = False  # Otherwise pytest would treat this class as a class of tests.

    def __init__(self) -> None:
        self.name = NAME
        self.sent: list[Sent] = []
        self.answer: Receipt | None = None
        self._numbers = itertools.count(1)
        self._news = anyio.Event()

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        """See `Adapter.capabilities`.

        Args:
            chat_key: Ignored: all chats are alike.

        Returns:
            One call may carry text, mentions, replies and pictures together. Each voice, video and
            file needs its own call. Messages can be edited as often as wanted.
        """
        del chat_key
        return _CAN

    async def send(self, delivery: Delivery) -> Receipt:
        """See `Adapter.send`.

        Args:
            delivery: The message to send. The file of each picture, voice or file segment must
                exist.

        Returns:
            ``answer`` if it is set; ``rejected`` if a file is missing; otherwise ``sent`` with the
            new message's id.
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
            delivery: Its segments replace the segments of the message.

        Returns:
            ``sent``, or ``rejected`` if there is no message with this id.
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
            chat_key: Ignored: all chats are alike.

        Returns:
            The one account of the bot under test.
        """
        del chat_key
        return frozenset({ACCOUNT})

    async def start(self) -> None:
        """Do nothing: there is no connection. Messages come from the test."""

    async def aclose(self) -> None:
        """Do nothing: there is no connection to close."""

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition about the sent messages is true.

        Args:
            condition: Called at once and after each send and edit. The wait ends when it returns
                True; there is no time limit.
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
