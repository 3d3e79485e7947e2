"""An outgoing message, and the result of sending it."""

from dataclasses import dataclass
from enum import StrEnum

from nekro_core.chat.key import ChatKey
from nekro_core.chat.segments import Segments


class DeliveryState(StrEnum):
    """The state of an outgoing platform call.

    ``pending -> sending -> sent | rejected | unknown``, or ``pending -> dropped``. ``sending`` is
    committed before the call. So a message whose row is ``sending`` at a start may have arrived:
    the row becomes ``unknown`` and is never repeated blindly.
    """

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    DROPPED = "dropped"

    @property
    def left(self) -> bool:
        """Whether the message arrived, may have arrived or may still arrive, so that it must not be
        sent again."""
        return self not in (DeliveryState.REJECTED, DeliveryState.DROPPED)

    @property
    def can_be_resent(self) -> bool:
        """Whether an operator may send the message again."""
        return self in (DeliveryState.UNKNOWN, DeliveryState.REJECTED, DeliveryState.DROPPED)

    @property
    def can_be_dropped(self) -> bool:
        """Whether an operator may drop the message."""
        return self in (DeliveryState.PENDING, DeliveryState.UNKNOWN, DeliveryState.REJECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The outgoing segments of one platform call, already split for the platform.

    ``delivery_id`` is ours and unique. ``run_id`` names the run that sent it. It is empty if no run
    did (a command's answer, a notice to people).

    Attributes:
        delivery_id: Our own unique id.
        chat_key: The chat it goes to.
        segments: What is sent in this one call.
        run_id: The run that sent it; empty if none did.
    """

    delivery_id: str
    chat_key: ChatKey
    segments: Segments
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What the platform answered.

    ``message_id`` is the platform's id of a sent message, if it gave one. ``reason`` is for a
    person to read: why the message was rejected or dropped, or why its state is not known.

    Attributes:
        state: The state of the delivery now.
        message_id: The platform's id of the sent message; empty if it gave none.
        reason: Why it was rejected or dropped, or why its state is not known, in words.
    """

    state: DeliveryState
    message_id: str = ""
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether the platform confirmed that it accepted the message."""
        return self.state is DeliveryState.SENT
