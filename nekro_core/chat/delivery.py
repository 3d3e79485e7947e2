"""An outgoing message, and the result of sending it."""

from dataclasses import dataclass
from enum import StrEnum

from nekro_core.chat.key import ChatKey
from nekro_core.chat.segments import Segments


class DeliveryState(StrEnum):
    """Where an outgoing platform call stands.

    ``pending -> sending -> sent | rejected | unknown``, or ``pending -> dropped``. ``sending`` is
    committed before the call, so a row found in it at a start may or may not have arrived: it
    becomes ``unknown`` and is never repeated blindly.
    """

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    DROPPED = "dropped"

    @property
    def left(self) -> bool:
        """Whether it is on its way, may be there or is: it must not be said again."""
        return self not in (DeliveryState.REJECTED, DeliveryState.DROPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One platform call's worth of outgoing segments, already split for the platform.

    ``delivery_id`` is ours and unique. ``run_id`` names the run that asked for it, or is empty
    for one that no run asked for (a command's answer, a notice to people).

    Attributes:
        delivery_id: Our own unique id.
        chat_key: The chat it goes to.
        segments: What is sent in this one call.
        run_id: The run that asked for it; empty where none did.
    """

    delivery_id: str
    chat_key: ChatKey
    segments: Segments
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What the platform answered.

    ``message_id`` is the platform's for a sent message where it gave one. ``reason`` is for a
    person to read: why it was rejected, dropped, or why nobody can know.

    Attributes:
        state: Where the delivery stands now.
        message_id: The platform's id of the sent message; empty where it gave none.
        reason: Why it was rejected or dropped, or why nobody can know, in words.
    """

    state: DeliveryState
    message_id: str = ""
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether the platform said that it took the message."""
        return self.state is DeliveryState.SENT
