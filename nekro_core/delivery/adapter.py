"""The contract of an adapter: what it must do, and what the bot offers it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from nekro_core.chat import ChatKey, ChatMessage, Delivery, Receipt, Record, Segments
from nekro_core.delivery.host import MediaKeeper, MediaLinker
from nekro_core.media.limits import PictureLimits, VoiceLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleLimits:
    """What one bundle of messages holds at the most; a larger one is sent as several. Words and
    pictures are in it, what else the messages had is sent behind it.

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
        measure: Counts the characters of a text as the platform does, at least one for each.
        images_per_call: The most pictures of one call.
        edit_every_s: How many seconds must pass between two changes of a sent message; the adapter
            is then `SupportsEditing`. None where messages cannot be changed.
        voice: What a voice message must be like; None to send it as it is.
        picture: What a picture must be like; None to send it as it is.
        file_bytes: The most bytes of a file or video. A larger one becomes a link where the
            operator has named an address for links, else it is refused with a reason. None for no
            limit.
        bundle: What one `Forward` holds at most. It can only be ``alone``; where it is not, bundles
            are sent as quoted words.
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
    """One platform. It is given its `Host` when it is made, and is started and ended by its owner.

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
        """Tell our own accounts in a chat, whose messages never trigger.

        Args:
            chat_key: The chat.

        Returns:
            Their platform ids.
        """

    async def start(self) -> None:
        """Begin to listen. Routes were added when it was made; this may connect out."""

    async def aclose(self) -> None:
        """Stop listening and end every task of its own."""


@runtime_checkable
class SupportsEditing(Adapter, Protocol):
    """An adapter whose platform lets sent messages be changed."""

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        """Replace the segments of a message that was sent, in one platform call; making it again
        does no harm.

        Args:
            message_id: The platform's id of the message.
            delivery: The segments that it shall have.

        Returns:
            As of `Adapter.send`.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainDelivery:
    """A call of which nobody knows whether it arrived, and what tells its message from others.

    Attributes:
        delivery: What was to be sent.
        since: When it was asked for, in seconds since 1970 by our own clock, which need not be the
            platform's.
        before: Platform ids of messages that the chat had by then, as far as we know them. Where
            the platform shows one of them, ours stands behind it.
        taken: Ids of messages that are surely another one, those of ``before`` among them.
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
        own: Whether it is one of the account that was asked.
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
        """What became of a call whose outcome is unknown; sends nothing that could be seen twice.

        ``sent``, with the message's id: it is there. ``rejected``: it is not, as far as the
        platform knows now; what is still under way may come yet, so the outbox asks again until it
        is old enough, and then sends it. ``unknown``: this platform, or this chat, can never tell.
        ``pending``: it cannot be asked now (account offline). An adapter that reads a history uses
        `nekro_core.delivery.outbound.match_delivery.match_delivery`; one whose platform takes a key
        with each message, and shows a repeated key once, may repeat the call under
        `Delivery.delivery_id`.

        Bounded by the outbox's own time-out; raises nothing for a platform's failure.

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

        The order of calls for one chat is the order kept: a message is stamped before the first
        await.

        Args:
            message: The message.

        Raises:
            StoreUnavailable: Nothing was kept.
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
        """Record that its author changed a message: from now on the prompt has the new words.

        What it answered and its media stay, and nobody is woken. Nothing happens where the message
        is not known, or is another person's.

        Args:
            chat_key: The chat.
            message_id: The platform's id of the message.
            user_id: The platform's id of who changed it.
            said: The new words.

        Raises:
            StoreUnavailable: Nothing was kept.
        """

    async def instance_of(self, adapter: str, account: str) -> str:
        """Get the instance part of an account's chat keys; made at first sight, then never moves.

        Args:
            adapter: The adapter's name.
            account: The platform's id of our account.

        Returns:
            The instance.
        """

    async def known_since(self, adapter: str, account: str) -> float | None:
        """Tell when `instance_of` was first asked for an account. What was said since should be
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
        """An account can be reached, again or for the first time: what waits for one is sent now.
        Called once the account is bound to its instance."""

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
        """Tell the time of each chat's newest message, to fetch what was missed since.

        Args:
            instance: The instance part of chat keys.

        Returns:
            For each chat the time of its newest message, in seconds since 1970.
        """
