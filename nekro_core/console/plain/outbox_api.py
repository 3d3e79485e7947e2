"""Lists, resends and drops outgoing messages over HTTP. See docs/http-api.md."""

from fastapi import APIRouter

from nekro_core.chat import ChatKey, ChatKeyError, DeliveryState, plain_text
from nekro_core.console.plain.views import Json
from nekro_core.delivery.errors import CannotDo
from nekro_core.delivery.outbound.admin import OPEN_STATES
from nekro_core.operator.contract import OperatorHost
from nekro_core.operator.http_routes import WebApiError
from nekro_core.store import DeliveryRow

MAX_LISTED = 500
_SHOWN = 2000
"""Maximum number of characters of a message that are shown."""


def add_outbox(router: APIRouter, operator: OperatorHost) -> None:
    """Add the routes to ``router``."""

    @router.get("/outbox")
    async def list_messages(
        states: str = "", chat: str = "", before: str = "", limit: int = 50
    ) -> Json:
        if not 1 <= limit <= MAX_LISTED:
            raise WebApiError(400, "number", f"limit: {limit}, expected 1 to {MAX_LISTED}")
        rows = await operator.outbox.listed(
            _states(states), chat_key=_chat(chat), before=before[:64], limit=limit
        )
        return {"messages": [delivery_view(row) for row in rows]}

    @router.post("/outbox/{delivery_id}/resend")
    async def resend(delivery_id: str) -> Json:
        try:
            return delivery_view(await operator.outbox.resend(delivery_id[:64]))
        except CannotDo as error:
            raise WebApiError(409, "outbox", str(error)) from None

    @router.post("/outbox/{delivery_id}/drop")
    async def drop(delivery_id: str) -> Json:
        try:
            return delivery_view(await operator.outbox.drop(delivery_id[:64]))
        except CannotDo as error:
            raise WebApiError(409, "outbox", str(error)) from None


def delivery_view(row: DeliveryRow) -> Json:
    """Convert a delivery to JSON. A delivery is one platform call: a message or a part of one."""
    return {
        "id": row.delivery_id,
        "chat_key": str(row.chat_key),
        "state": row.state.value,
        "text": plain_text(row.segments)[:_SHOWN],
        "reason": row.reason,
        "message_id": row.message_id,
        "created": row.created,
        "changed": row.changed,
        "run_id": row.run_id,
    }


def _states(text: str) -> tuple[DeliveryState, ...]:
    if not text:
        return OPEN_STATES
    if text == "all":
        return tuple(DeliveryState)
    try:
        return tuple(DeliveryState(each.strip()) for each in text.split(","))
    except ValueError:
        known = ", ".join(DeliveryState)
        raise WebApiError(
            400, "states", f"{text[:80]!r}: expected all, or some of {known}"
        ) from None


def _chat(text: str) -> ChatKey | None:
    try:
        return ChatKey.parse(text) if text else None
    except ChatKeyError as error:
        raise WebApiError(400, "chat", str(error)) from None
