"""The contract of a platform's way in and out."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from nekro_core.chat import ChatKey, ChatMessage, Delivery, Receipt, Segments
from nekro_core.media.limits import PictureLimits, VoiceLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleLimits:
    """What one bundle of messages holds at the most; a larger one is sent as several. Words and
    pictures are in it, what else the messages had is sent behind it."""

    messages: int = 100
    media_bytes: int = 30 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What one platform call can carry.

    ``inline`` are the segment types that share one call, in any mixture; ``alone`` those that need
    a call each; a type in neither cannot be sent and is refused with a reason. ``text_length``
    bounds the characters of one call, ``caption_length`` those of a call that has a picture;
    ``measure`` counts them as the platform does, one for each at least. ``images_per_call`` bounds
    pictures. ``edit_every_s`` says that a
    sent message can be changed, so often at most; the adapter is then `SupportsEditing`.

    ``voice`` and ``picture`` say what those have to be like; without, they go out as they are.
    ``file_bytes`` bounds a file (or video): a larger one becomes a link where the operator has
    named an address for links, else it is refused with a reason; None is for an adapter that brings
    files of any size there. ``bundle`` bounds a `Forward`, which can only be ``alone``; where it is
    not, bundles are sent as quoted words.
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
    """One platform. It is given its ports when it is made, and is started and ended by its owner.

    Inbound it hands each message to `Inbound` in the order of arrival.
    """

    name: str

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        """What one call to this chat can carry."""

    async def send(self, delivery: Delivery) -> Receipt:
        """Make the one platform call and report what the platform answered.

        Never raises for a platform's failure: an answer that says no is ``rejected`` with its
        reason, no answer is ``unknown``, and a call that surely never left (account offline) is
        ``pending``.
        """

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        """Platform ids of our own accounts there, whose messages never trigger."""

    async def start(self) -> None:
        """Begin to listen. Routes were added when it was made; this may connect out."""

    async def aclose(self) -> None:
        """Stop listening and end every task of its own."""


@runtime_checkable
class SupportsEditing(Adapter, Protocol):
    """An adapter whose platform lets sent messages be changed."""

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        """Put a delivery's segments in the place of those of a message that was sent. One platform
        call, reported as by `Adapter.send`; making it again does no harm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainDelivery:
    """A call of which nobody knows whether it arrived, and what tells its message from others.

    ``since`` is when it was asked for, in seconds since 1970 by our own clock, which need not be
    the platform's. ``before`` are platform ids of messages that the chat had by then, as far as we
    know them: wherever the platform shows one of them, ours stands behind it. ``taken`` are ids of
    messages that are surely another one, those before it among them.
    """

    delivery: Delivery
    since: float
    before: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformMessage:
    """A message as the platform shows it now. ``own`` is one of the account that was asked."""

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
        """


Inbound = Callable[[ChatMessage], Awaitable[None]]
"""Where an adapter hands a message: returns once it is stored."""
