"""Shows outgoing messages that did not arrive, and sends them again or drops them."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from nekro_core.chat import ChatKey, DeliveryState, plain_text
from nekro_core.delivery.outbound.admin import OPEN_STATES
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change
from nekro_core.operator.contract import OutboxActions
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.store import DeliveryRow

MAX_TEXT = 2000
"""Maximum number of characters of a message that are shown."""

DeliveryId = Annotated[str, Field(min_length=1, max_length=64)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryView:
    """One platform call: a message, or a part of one.

    Attributes:
        delivery_id: The bot's id for the call.
        chat_key: The receiving chat.
        state: The state.
        text: The text, cut off at `MAX_TEXT` characters. Media are named in brackets.
        reason: Why the message was not sent, in words.
        message_id: The platform's id of the sent message; empty if there is none.
        run_id: The run that sent it; empty if no run did.
        created: Seconds since 1970.
        changed: When the state last changed, in seconds since 1970.
    """

    delivery_id: str
    chat_key: ChatKey
    state: DeliveryState
    text: str
    reason: str
    message_id: str
    run_id: str
    created: float
    changed: float


class Undelivered(Area):
    """Outgoing messages.

    Args:
        audit: The audit log.
        outbox: Lists, resends and drops messages.
    """

    name = "undelivered"

    def __init__(self, audit: AuditLog, outbox: OutboxActions) -> None:
        super().__init__(audit)
        self._outbox = outbox

    @query(role=AccessRole.VIEWER)
    async def newest(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        states: tuple[DeliveryState, ...] = OPEN_STATES,
        chat_key: ChatKey | None = None,
        before: str = "",
        limit: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> list[DeliveryView]:
        """List outgoing messages, newest first.

        Args:
            states: Only messages in these states. By default those that wait, are being sent, were
                refused, or whose outcome is unknown.
            chat_key: Only messages to this chat.
            before: A delivery id: list only messages that were requested before this delivery.
            limit: The largest number of messages.
        """
        rows = await self._outbox.listed(states, chat_key=chat_key, before=before, limit=limit)
        return [_view(row) for row in rows]

    @query(role=AccessRole.VIEWER)
    async def count(self, actor: Actor) -> int:  # noqa: ARG002
        """Count the messages that wait, are being sent, were refused, or whose outcome is unknown;
        at most 1,000."""
        return await self._outbox.count()

    @action(role=AccessRole.OPERATOR)
    async def resend(self, actor: Actor, *, delivery_id: DeliveryId) -> Change[DeliveryView]:  # noqa: ARG002
        """Send a message again that was refused or dropped, or whose outcome is unknown. People may
        see it twice if its outcome was unknown.

        Args:
            delivery_id: The delivery's id.
        """
        return _changed(await self._outbox.resend(delivery_id))

    @action(role=AccessRole.OPERATOR)
    async def drop(self, actor: Actor, *, delivery_id: DeliveryId) -> Change[DeliveryView]:  # noqa: ARG002
        """Drop a message that waits, was refused, or whose outcome is unknown: it is not sent.
        `resend` can still send it.

        Args:
            delivery_id: The delivery's id.
        """
        return _changed(await self._outbox.drop(delivery_id))


def _changed(row: DeliveryRow) -> Change[DeliveryView]:
    view = _view(row)
    return Change(result=view, subject=row.delivery_id, new=view.state)


def _view(row: DeliveryRow) -> DeliveryView:
    return DeliveryView(
        delivery_id=row.delivery_id,
        chat_key=row.chat_key,
        state=row.state,
        text=plain_text(row.segments)[:MAX_TEXT],
        reason=row.reason,
        message_id=row.message_id,
        run_id=row.run_id,
        created=row.created,
        changed=row.changed,
    )
