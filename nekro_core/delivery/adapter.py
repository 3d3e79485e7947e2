"""Defines what an adapter must do, and what the bot offers it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from nekro_core.chat import ChatKey, ChatMessage, Delivery, Receipt, Record, Segments
from nekro_core.delivery.media_contract import MediaKeeper, MediaLinker
from nekro_core.media.limits import PictureLimits, VoiceLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleLimits:
    """The most that one bundle of messages holds; a larger one is sent as several. A bundle holds
    text and pictures. Other media of its messages are sent after it.

    Attributes:
        messages: How many messages one bundle holds.
        media_bytes: Bytes of all its pictures together.
    """

    messages: int = 100
    media_bytes: int = 30 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What one platform call can carry.

    Attributes:
        inline: The segment types that share one call, in any mixture.
        alone: The segment types that need a call each. A type in neither set is refused with a
            reason.
        text_length: The most characters of one call.
        caption_length: The most characters of a call that has a picture; None for ``text_length``.
        measure: Counts the characters of a text as the platform does, each as one or more.
        images_per_call: The most pictures of one call.
        edit_every_s: How many seconds must pass between two changes of a sent message; the adapter
            is then `SupportsEditing`. None where messages cannot be changed.
        voice: What a voice message must be like; None to send it as it is.
        picture: What a picture must be like; None to send it as it is.
        file_bytes: The most bytes of a file or video. A larger one becomes a link where the
            operator has set an address for links; otherwise it is refused with a reason. None for
            no limit.
        bundle: What one `Forward` holds at most. `Forward` can only be in ``alone``; where it is
            not, bundles are sent as quoted text.
    """

    inline: frozenset[type]
    alone: frozenset[type]
    text_length: int = 4000
    caption_length: int | None = None
    measure: Callable[[str], int] = len
    images_per_call: int = 9
    edit_every_s: float | None = None
    voice: VoiceLimits | None = None
    picture: PictureLimits | None = None
    file_bytes: int | None = 32 * 1024 * 1024
    bundle: BundleLimits = BundleLimits()


class Adapter(Protocol):
    """Connects one platform. It gets its `Host` when it is made. Its owner starts and closes it.

    It hands each message to `Host.accept`, a chat's messages in the order of arrival.
    """

    name: str

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        """Say what one call to a chat can carry.

        Args:
            chat_key: The chat.

        Returns:
            The limits that deliveries to it are split by.
        """

    async def send(self, delivery: Delivery) -> Receipt:
        """Make the one platform call and report what the platform answered. Never raises for a
        platform's failure.

        Args:
            delivery: What to send, already split for the platform.

        Returns:
            ``sent`` with the message's id; ``rejected`` with the reason where the platform says no;
            ``unknown`` where it does not answer; ``pending`` where the call surely never left
            (account offline).
        """

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        """Return the bot's own accounts in a chat. Their messages never trigger an answer.

        Args:
            chat_key: The chat.

        Returns:
            Their platform ids.
        """

    async def start(self) -> None:
        """Begin to listen. The adapter added its routes when it was made; this may open
        connections."""

    async def aclose(self) -> None:
        """Stop listening and end all tasks of the adapter."""


@runtime_checkable
class SupportsEditing(Adapter, Protocol):
    """An adapter whose platform lets sent messages be changed."""

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        """Replace the segments of a sent message, in one platform call. Repeating the call does no
        harm.

        Args:
            message_id: The platform's id of the message.
            delivery: The new segments.

        Returns:
            As of `Adapter.send`.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainDelivery:
    """A call with an unknown outcome, and what tells its message from others.

    Attributes:
        delivery: What was to be sent.
        since: When the send was requested, in seconds since 1970. By the bot's clock, which may
            differ from the platform's.
        before: Platform ids of messages that the chat already had then, as far as we know them.
            Where the platform's history shows one of them, our message comes after it.
        taken: Ids that surely belong to other messages, including those of ``before``.
    """

    delivery: Delivery
    since: float
    before: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformMessage:
    """A message as the platform shows it now.

    Attributes:
        message_id: The platform's id.
        own: Whether the account that was asked sent it.
        segments: What it says.
        time: The platform's time, in seconds since 1970.
    """

    message_id: str
    own: bool
    segments: Segments
    time: float


@runtime_checkable
class SupportsConfirmation(Adapter, Protocol):
    """An adapter whose platform can be asked later whether a message arrived."""

    async def confirm(self, doubt: UncertainDelivery) -> Receipt:
        """Find out what became of a call with an unknown outcome. Sends nothing that could be seen
        twice.

        ``sent``, with the message's id: it is there. ``rejected``: it is not, as far as the
        platform knows now. It may still be under way, so the outbox asks again until the call is
        old enough, and then sends it again. ``unknown``: this platform, or this chat, can never
        tell. ``pending``: it cannot be asked now (account offline). An adapter that reads a history
        uses `nekro_core.delivery.outbound.match_delivery.match_delivery`. Some platforms take a key
        with each message and show a repeated key once; their adapters may repeat the call with
        `Delivery.delivery_id` as the key.

        The outbox bounds it with a time-out. Raises nothing for a platform's failure.

        Args:
            doubt: The call, and what tells its message from others.

        Returns:
            ``sent``, ``rejected``, ``unknown`` or ``pending``, as above.
        """


class Host(Protocol):
    """The bot, as an adapter sees it."""

    data_dir: Path
    settings: Mapping[str, Any]
    """NoneBot's configuration, lower-case names."""
    media: MediaKeeper
    links: MediaLinker

    async def accept(self, message: ChatMessage) -> None:
        """Take an inbound message. Returns once it is stored, or known as a duplicate.

        The history of a chat has the order of these calls: a message is stamped before the first
        await.

        Args:
            message: The message.

        Raises:
            StoreUnavailable: Nothing was stored.
        """

    async def recall(self, chat_key: ChatKey, message_id: str) -> None:
        """Record that a message was taken back on the platform: it leaves the prompt.

        Args:
            chat_key: The chat.
            message_id: The platform's id of the message.
        """

    async def revise(
        self, chat_key: ChatKey, message_id: str, user_id: str, said: Segments
    ) -> None:
        """Record that a message was changed by its author. From now on the prompt has the new
        words.

        Its reply mark and its media stay, and no session is woken. Nothing happens where the
        message is not known or is another person's.

        Args:
            chat_key: The chat.
            message_id: The platform's id of the message.
            user_id: The platform's id of the person who changed it.
            said: The new words.

        Raises:
            StoreUnavailable: Nothing was stored.
        """

    async def instance_of(self, adapter: str, account: str) -> str:
        """Get the instance part of an account's chat keys. It is made on first use and never
        changes.

        Args:
            adapter: The adapter's name.
            account: The platform's id of our account.

        Returns:
            The instance.
        """

    async def known_since(self, adapter: str, account: str) -> float | None:
        """Return when `instance_of` was first called for an account. Messages since then should be
        in the history.

        Args:
            adapter: The adapter's name.
            account: The platform's id of our account.

        Returns:
            Seconds since 1970; None for a new account.
        """

    async def account_of(self, instance: str) -> str | None:
        """Get the platform account that is bound to an instance.

        Args:
            instance: The instance part of a chat key.

        Returns:
            The platform's id; None where none is bound.
        """

    def online(self) -> None:
        """Report that an account can be reached, again or for the first time. Waiting messages are
        sent now. Call this after the account is bound to its instance."""

    async def records(self, chat_key: ChatKey, *, after: int = 0, limit: int = 200) -> list[Record]:
        """Get lines of a chat's history.

        Args:
            chat_key: The chat.
            after: Only lines whose ``seq`` is greater; 0 for the newest ``limit`` lines.
            limit: How many at most.

        Returns:
            The lines, oldest first.
        """

    async def newest_times(self, instance: str) -> Mapping[ChatKey, float]:
        """Return the time of each chat's newest message, so that later ones can be fetched.

        Args:
            instance: The instance part of chat keys.

        Returns:
            For each chat the time of its newest message, in seconds since 1970.
        """
