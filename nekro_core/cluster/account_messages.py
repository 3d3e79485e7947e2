"""Defines the requests that a worker sends to the gateway of an account, and their answers.

Requests and answers are JSON. A gateway does not trust a request, because its sender may have
stolen a worker's credentials.
"""

from collections.abc import Callable

import msgspec

from nekro_core.chat import (
    ChatKey,
    Delivery,
    Receipt,
    Segments,
)
from nekro_core.cluster.calls import LONGEST_CALL_S
from nekro_core.cluster.capability_data import CapabilityData
from nekro_core.delivery.adapter import UncertainDelivery
from nekro_core.delivery.outbound.bundle import media_bytes
from nekro_core.delivery.settings import DeliverySettings


def account_name(instance: str) -> str:
    """Return the name for `CallCarrier` under which a gateway serves the account of an instance."""
    return f"account.{instance}"


def call_seconds(settings: DeliverySettings, segments: Segments) -> float:
    """Return the time limit of a platform call in seconds. It is longer for large media, and at
    most `LONGEST_CALL_S`."""
    return min(settings.call_s + carry_seconds(settings, segments), LONGEST_CALL_S)


def carry_seconds(settings: DeliverySettings, segments: Segments) -> float:
    """Return how many seconds the media of a message may need into the object store, or out of
    it."""
    return media_bytes(segments) // settings.call_bytes_s


class DeliveryData(msgspec.Struct, frozen=True):
    """The fields of a `Delivery`, in the form in which a worker sends them to a gateway. In place
    of a path, each medium has the name of an object in the object store."""

    delivery_id: str
    chat_key: str
    segments: Segments
    run_id: str = ""

    @classmethod
    def of(cls, delivery: Delivery, segments: Segments) -> "DeliveryData":
        """Return the data of a delivery. ``segments`` replace its own; their media have names of
        objects."""
        return cls(delivery.delivery_id, str(delivery.chat_key), segments, delivery.run_id)

    def delivery(self, segments: Segments) -> Delivery:
        """Return the delivery. ``segments`` replace those of the data; their media have paths of
        this machine. Raises `ChatKeyError`."""
        return Delivery(
            delivery_id=self.delivery_id,
            chat_key=ChatKey.parse(self.chat_key),
            segments=segments,
            run_id=self.run_id,
        )


class SendRequest(msgspec.Struct, frozen=True, tag="send"):
    """Make the platform call of a delivery, and store its outcome."""

    partition: int
    epoch: int
    delivery: DeliveryData
    token: str = ""


class EditRequest(msgspec.Struct, frozen=True, tag="edit"):
    """Replace the segments of a sent message."""

    partition: int
    epoch: int
    message_id: str
    delivery: DeliveryData
    token: str = ""


class ConfirmRequest(msgspec.Struct, frozen=True, tag="confirm"):
    """Ask the platform for the outcome of an earlier call."""

    partition: int
    epoch: int
    delivery: DeliveryData
    since: float
    before: frozenset[str]
    taken: frozenset[str]
    token: str = ""

    def doubt(self, delivery: Delivery) -> UncertainDelivery:
        """Return the argument of `SupportsConfirmation.confirm` for ``delivery``."""
        return UncertainDelivery(
            delivery=delivery, since=self.since, before=self.before, taken=self.taken
        )


class TypingRequest(msgspec.Struct, frozen=True, tag="typing"):
    """Show that the bot is typing, or no longer show it."""

    partition: int
    epoch: int
    chat_key: str
    typing: bool
    token: str = ""


class ReactRequest(msgspec.Struct, frozen=True, tag="react"):
    """React to a message."""

    partition: int
    epoch: int
    chat_key: str
    message_id: str
    emoji: str
    token: str = ""


class RemoteChatRequest(msgspec.Struct, frozen=True, tag="chat"):
    """Ask what messages to a chat can carry. It changes nothing, so it needs no ownership."""

    chat_key: str


OwnerRequest = SendRequest | EditRequest | ConfirmRequest | TypingRequest | ReactRequest
"""The requests that a gateway accepts only from the worker that owns the chat's partition. The
``token`` is the owner's (`Ownership.token`)."""
AccountRequest = OwnerRequest | RemoteChatRequest


class RemoteChat(msgspec.Struct, frozen=True):
    """What a worker must know about a chat before it can send messages to the chat.

    Attributes:
        adapter: The name of the gateway's adapter that serves the chat.
        edits: Whether the adapter implements `SupportsEditing`.
        confirms: Whether the adapter implements `SupportsConfirmation`.
        types: Whether the adapter implements `SupportsTyping`.
        reacts: Whether the adapter implements `SupportsReactions`.
        own: The platform ids of the bot's own accounts in the chat.
        can: What one message to the chat can carry.
    """

    adapter: str
    edits: bool
    confirms: bool
    types: bool
    reacts: bool
    own: frozenset[str]
    can: CapabilityData


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The gateway refuses a request. ``lost`` means that the request's epoch is not the current
    one: another worker owns the partition now. ``later`` means that the platform call was certainly
    not made, and can be made later. ``sign`` means that the adapter raised
    `SignRefused`: the platform refuses the typing state or the reaction, and would refuse it
    again."""

    reason: str
    lost: bool = False
    later: bool = False
    sign: bool = False


class Answered(msgspec.Struct, frozen=True, tag="receipt"):
    """The outcome of a platform call."""

    receipt: Receipt


class SignShown(msgspec.Struct, frozen=True, tag="shown"):
    """The typing state or the reaction is shown."""


class RemoteChatAnswer(msgspec.Struct, frozen=True, tag="chat"):
    """The answer to `RemoteChatRequest`."""

    chat: RemoteChat


AccountAnswer = Answered | SignShown | RemoteChatAnswer | Refused

encode = msgspec.json.Encoder().encode
decode_request: Callable[[bytes], AccountRequest] = msgspec.json.Decoder(AccountRequest).decode
decode_answer: Callable[[bytes], AccountAnswer] = msgspec.json.Decoder(AccountAnswer).decode
