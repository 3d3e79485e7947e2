"""Defines the interface that an adapter implements, and the interface that the bot offers to
adapters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from nekro_core.chat import ChatKey, ChatMessage, Delivery, Receipt, Record, Segments
from nekro_core.delivery.account_settings import AccountSettingsStore
from nekro_core.delivery.contact_request import ContactRequest
from nekro_core.delivery.media_contract import MediaKeeper, MediaLinker
from nekro_core.media.limits import PictureLimits, VoiceLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleLimits:
    """The maximum size of one bundle: several messages that the platform shows as one (`Forward`).
    A larger bundle is sent as several. A bundle holds text and pictures. Other media of its
    messages are sent after the bundle.

    Attributes:
        messages: The maximum number of messages in one bundle.
        media_bytes: The maximum size in bytes of all pictures of one bundle together.
    """

    messages: int = 100
    media_bytes: int = 30 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What one platform call can carry.

    Attributes:
        inline: The segment types that can be in one call together, in any mixture.
        alone: The segment types whose segments each need a separate call. A type in neither set is
            refused with a reason.
        text_length: The maximum number of characters in one call.
        caption_length: The maximum number of characters in a call that has a picture; None if it is
            ``text_length``.
        measure: Counts a text's characters as the platform counts them; a character may count as
            more than one.
        images_per_call: The maximum number of pictures in one call.
        edit_every_s: Minimum number of seconds between two edits of a sent message. An adapter that
            sets it implements `SupportsEditing`. None if messages cannot be edited.
        typing_s: How many seconds the platform shows that the bot is typing, after it was told so
            once. An adapter that sets it implements `SupportsTyping`. None if this chat cannot show
            it.
        reactions: Whether the bot can react to messages of this chat with an emoji. An adapter that
            sets it implements `SupportsReactions`.
        voice: The formats and limits for voice messages; None to send them unconverted.
        picture: The formats and limits for pictures; None to send them unconverted.
        file_bytes: Maximum size of a file or video in bytes. A larger file is sent as a link if the
            operator has set an address for links; otherwise it is refused with a reason. None for
            no limit.
        markdown: Whether the adapter shows a `Text` with ``markdown`` as the platform's markup. If
            not, the adapter gets the text without the marks.
        bundle: The maximum size of one `Forward`. A platform that has bundles lists `Forward` in
            ``alone``, never in ``inline``. If ``alone`` does not list it, bundles are sent as
            quoted text.
    """

    inline: frozenset[type]
    alone: frozenset[type]
    text_length: int = 4000
    caption_length: int | None = None
    measure: Callable[[str], int] = len
    images_per_call: int = 9
    edit_every_s: float | None = None
    typing_s: float | None = None
    reactions: bool = False
    voice: VoiceLimits | None = None
    picture: PictureLimits | None = None
    file_bytes: int | None = 32 * 1024 * 1024
    markdown: bool = False
    bundle: BundleLimits = BundleLimits()


class Adapter(Protocol):
    """Connects one platform. The bot creates the adapter with its `Host`, starts it and closes it.

    The adapter passes each message to `Host.accept`, the messages of one chat in the order of their
    arrival.
    """

    name: str

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        """Return what one call to a chat can carry.

        Args:
            chat_key: The chat.

        Returns:
            The limits by which messages to this chat are split into calls.
        """

    async def send(self, delivery: Delivery) -> Receipt:
        """Make exactly one platform call and return the platform's answer. Never raises for a
        platform's failure.

        Args:
            delivery: What to send, already split for the platform.

        Returns:
            ``sent`` with the message's id; ``rejected`` with the reason if the platform refuses;
            ``unknown`` if the platform does not answer; ``pending`` if the call was certainly not
            made (account offline).
        """

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        """Return the bot's own accounts in a chat. Their messages never trigger an answer.

        Args:
            chat_key: The chat.

        Returns:
            Their platform ids.
        """

    async def start(self) -> None:
        """Begin to receive messages. The adapter added its HTTP routes when it was created; this
        method may open connections."""

    async def aclose(self) -> None:
        """Stop receiving messages and end all tasks of the adapter."""


@runtime_checkable
class SupportsEditing(Adapter, Protocol):
    """An adapter whose platform can edit sent messages."""

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        """Replace the segments of a sent message, in one platform call. Repeating the call does no
        harm.

        Args:
            message_id: The platform's id of the message.
            delivery: The new segments.

        Returns:
            As for `Adapter.send`.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainDelivery:
    """A call with an unknown outcome, and data that distinguishes its message from others.

    Attributes:
        delivery: The delivery whose outcome is unknown.
        since: When sending was requested, in seconds since 1970, on the bot's clock. The
            platform's clock may differ.
        before: Platform ids of messages that the chat already had at the time ``since``, as far as
            the bot knows them. If the platform's history shows one of these messages, our message
            comes after it.
        taken: Platform ids that certainly belong to other messages, including the ids in
            ``before``.
    """

    delivery: Delivery
    since: float
    before: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformMessage:
    """A message in the form that the platform shows now.

    Attributes:
        message_id: The platform's id.
        own: Whether the bot's account on this platform sent it.
        segments: The content of the message.
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
        """Ask the platform for the outcome of a call whose outcome is unknown. This must not make
        people see the message twice.

        ``sent``, with the message's id: the message arrived. ``rejected``: the platform does not
        have the message now. The message may still arrive, so the outbox asks again for a while
        (`DeliverySettings.settle_s`), and then sends the message again. ``unknown``: this platform
        can never say whether it arrived, at least not for this chat. ``pending``: the platform
        cannot be asked now (account offline).

        An adapter that reads a history uses
        `nekro_core.delivery.outbound.match_delivery.match_delivery`. Some platforms accept a key
        with each message and show the message once even if the key is sent twice. Their adapters
        may repeat the call with `Delivery.delivery_id` as the key.

        The outbox sets a time-out on this method. Never raises for a platform's failure.

        Args:
            doubt: The call, and data that distinguishes its message from others.

        Returns:
            ``sent``, ``rejected``, ``unknown`` or ``pending``, as above.
        """


class Host(Protocol):
    """The part of the bot that an adapter uses."""

    data_dir: Path
    settings: Mapping[str, Any]
    """NoneBot's configuration, with names in lower case."""
    media: MediaKeeper
    links: MediaLinker
    account_settings: AccountSettingsStore
    """Stores the accounts that the operator adds while the bot runs."""

    async def accept(self, message: ChatMessage) -> None:
        """Accept an inbound message. Returns when the message is stored or recognized as a
        duplicate.

        A chat's history has the order of these calls, because this method gives the message its
        sequence number before its first await.

        Args:
            message: The message.

        Raises:
            StoreUnavailable: Nothing was stored.
        """

    async def recall(self, chat_key: ChatKey, message_id: str) -> None:
        """Record that a message was recalled on the platform. The message no longer appears in
        prompts.

        Args:
            chat_key: The chat.
            message_id: The platform's id of the message.
        """

    async def revise(
        self, chat_key: ChatKey, message_id: str, user_id: str, said: Segments
    ) -> None:
        """Record that the author of a message edited it. Later prompts contain the new text.

        The message keeps its reply mark and its media, and no session is woken. The call does
        nothing if the message is not known or has another author.

        Args:
            chat_key: The chat.
            message_id: The platform's id of the message.
            user_id: The platform's id of the person who edited it.
            said: The new text, with its mentions.

        Raises:
            StoreUnavailable: Nothing was stored.
        """

    async def receive_request(self, request: ContactRequest) -> None:
        """Store a request of a person, for example to be a friend of the account, so that an
        operator can answer it. See `SupportsRequests`.

        Args:
            request: The request.

        Raises:
            OSError: It could not be stored.
        """

    async def instance_of(self, adapter: str, account: str) -> str:
        """Get the instance part of an account's chat keys. The first call for an account creates
        the instance; it never changes.

        Args:
            adapter: The adapter's name.
            account: The platform's id of our account.

        Returns:
            The instance.
        """

    async def known_since(self, adapter: str, account: str) -> float | None:
        """Return when `instance_of` was first called for an account. The history should contain all
        messages since then.

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
            The platform's id; None if no account is bound.
        """

    def online(self) -> None:
        """Report that an account has come online. The bot then sends the messages that wait. Call
        this after the account is bound to its instance."""

    async def records(self, chat_key: ChatKey, *, after: int = 0, limit: int = 200) -> list[Record]:
        """Get records of a chat's history.

        Args:
            chat_key: The chat.
            after: Only records whose ``seq`` is greater; 0 for the newest ``limit`` records.
            limit: The maximum number of records.

        Returns:
            The records, oldest first.
        """

    async def name_chat(self, chat_key: ChatKey, name: str) -> None:
        """Store the name of a group or channel that the adapter learned without a message. The name
        of a message's chat is in the message.

        Args:
            chat_key: The chat. If none of its messages was stored, its name is stored with the
                first one.
            name: The name, at most 255 characters; more are cut off.
        """

    async def newest_times(self, instance: str) -> Mapping[ChatKey, float]:
        """Return, for each chat of an instance, the time of the newest message that a person wrote.
        The adapter can then fetch later messages from the platform.

        Args:
            instance: The instance part of the chat keys.

        Returns:
            The time for each chat, in seconds since 1970.
        """
