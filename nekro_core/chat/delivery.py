"""An outgoing message, and the result of sending it."""

from dataclasses import dataclass
from enum import StrEnum

from nekro_core.chat.key import ChatKey
from nekro_core.chat.segments import Segments


class DeliveryState(StrEnum):
    """The state of an outgoing platform call.

    ``pending -> sending -> sent | rejected | unknown``, or ``pending -> dropped``. ``sending`` is
    committed before the call. So if a row is ``sending`` when the bot starts, its message may have
    arrived. The row becomes ``unknown``, and the message is not sent again automatically.
    """

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    DROPPED = "dropped"

    @property
    def left(self) -> bool:
        """Whether the message arrived, may have arrived or may still arrive. If so, it must not be
        sent again automatically."""
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
    """The outgoing message of one platform call, already split for the platform.

    Attributes:
        delivery_id: A unique id, which the outbox makes.
        chat_key: The chat that gets the message.
        segments: The content of the message.
        run_id: The run that sent the message; empty if it was not sent by a run (for example a
            command's answer or a notice to people).
    """

    delivery_id: str
    chat_key: ChatKey
    segments: Segments
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The result of one platform call.

    Attributes:
        state: The state of the delivery after the call.
        message_id: The platform's id of the sent message; empty if the platform gave none.
        reason: A text for people: why the message was rejected or dropped, or why its state is
            unknown.
    """

    state: DeliveryState
    message_id: str = ""
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether the platform confirmed that it accepted the message."""
        return self.state is DeliveryState.SENT
