"""Derives the outcome of a call from the error that a NoneBot adapter raised."""

import httpx
from nonebot.exception import ActionFailed, ApiNotAvailable, NetworkError

from nekro_core.api.chat import DeliveryState, Receipt

from .bridge import CannotSend

_NEVER_LEFT = (ConnectionRefusedError, httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_TOO_MANY = 429
_SERVER_TROUBLE = range(500, 600)


def outcome_of(error: Exception) -> Receipt:
    """Return ``rejected`` for a clear refusal, and ``pending`` if the call was surely not made, so
    that it may be tried again. Return ``unknown`` in all other cases, because a message that may
    have arrived must not be sent again."""
    if isinstance(error, CannotSend):
        return Receipt(state=DeliveryState.REJECTED, reason=str(error))
    if isinstance(error, NetworkError) and isinstance(error.__cause__, ActionFailed):
        # the adapter for OneBot v12 over HTTP wraps every refusal in another error
        error = error.__cause__
    reason = str(error) or repr(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, _NEVER_LEFT):
            return Receipt(state=DeliveryState.PENDING, reason=f"not reachable: {cause}")
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, ApiNotAvailable):
        return Receipt(
            state=DeliveryState.REJECTED, reason=f"the adapter has no call for it: {reason}"
        )
    if isinstance(error, ActionFailed) and not isinstance(error, NetworkError):
        status = _status_of(error)
        if status == _TOO_MANY:
            return Receipt(
                state=DeliveryState.PENDING, reason=f"the platform asks to wait: {reason}"
            )
        if status not in _SERVER_TROUBLE:
            return Receipt(state=DeliveryState.REJECTED, reason=reason)
    return Receipt(state=DeliveryState.UNKNOWN, reason=reason)


def _status_of(error: ActionFailed) -> int:
    status = getattr(error, "status_code", None) or getattr(
        getattr(error, "response", None), "status_code", None
    )
    return status if isinstance(status, int) else 0
