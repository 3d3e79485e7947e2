"""Converts a provider's error to a `ModelError`, whose class says what the cause is."""

import re
from typing import Any

from nekro_core.llm.model import (
    KeyRejected,
    ModelError,
    ModelRefused,
    ModelUnreachable,
    QuotaExceeded,
    RequestRejected,
)

_SECRET = re.compile(r"\b(?:sk|pk|key|gsk|xai|AIza)[-_][\w*.-]{6,}|Bearer\s+\S+", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\s]+")
_FILTER_CODES = ("content_filter", "content_policy", "moderation", "safety", "responsible_ai")
_EMPTY_ACCOUNT = (
    "insufficient_quota",
    "insufficient_balance",
    "insufficient balance",
    "billing",
    "credit balance is too low",
)
_WRONG_KEY = ("api_key_invalid", "api key not valid")
"""Gemini's words for a wrong key, which it reports with the status 400."""


class Redactor:
    """Prepares a provider's message for a log: it becomes one line of limited length without
    secrets."""

    def __init__(self, *secrets: str) -> None:
        # Leave out short keys: a key such as "none" would remove ordinary words from messages.
        self._secrets = tuple(secret for secret in secrets if len(secret) >= 8)

    def __call__(self, text: str) -> str:
        """Return the message in one line of at most 300 characters, without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = _CONTROL.sub(" ", _SECRET.sub("***", text)).strip()
        return text if len(text) <= 300 else f"{text[:299]}…"


def model_error(
    status: int | None,
    body: Any,
    message: str,
    redact: Redactor,
    *,
    retry_after_s: float | None = None,
) -> tuple[ModelError, bool]:
    """Return the error for the status and the body of an answer, and whether another attempt may
    succeed.

    ``status`` is None for an error inside a stream that has no status. ``body`` is the parsed JSON
    of the error, or its text. ``message`` is used if the body has no message. ``redact`` removes
    secrets from the message. ``retry_after_s`` is the wait that the answer asks for.
    """
    said = redact(_message_of(body) or message)
    codes = _codes_of(body)
    about = f"{codes} {said}".lower()
    if any(word in codes for word in _FILTER_CODES) or (
        status in (400, 403) and "moderation" in about
    ):
        return ModelRefused(f"the provider's filter declined: {said}"), False
    if status == 400 and any(word in about for word in _WRONG_KEY):
        status = 401
    if status == 400 and any(word in about for word in _EMPTY_ACCOUNT):
        return QuotaExceeded(f"the account is empty (400): {said}", retry_after_s), False
    match status:
        case 401 | 403:
            return KeyRejected(
                f"the provider does not take the key ({status}): {said}. "
                "Check api_key and that it may use this model"
            ), False
        case 402:
            return QuotaExceeded(f"the account is empty (402): {said}", retry_after_s), False
        case 429:
            empty = any(word in about for word in _EMPTY_ACCOUNT)
            what = "the account's quota is used up" if empty else "too many requests"
            return QuotaExceeded(f"{what} (429): {said}", retry_after_s), not empty
        case 408 | 409:
            return ModelUnreachable(f"the provider asks to try again ({status}): {said}"), True
        case 404:
            return RequestRejected(
                f"no such model or address (404): {said}. Check model and base_url"
            ), False
        case None:
            return _describe_by_words(about, said)
    if 400 <= status < 500:
        return RequestRejected(f"the provider rejects the request ({status}): {said}"), False
    return ModelUnreachable(f"the provider failed ({status}): {said}"), True


def _describe_by_words(about: str, said: str) -> tuple[ModelError, bool]:
    if any(word in about for word in _EMPTY_ACCOUNT):
        return QuotaExceeded(f"the account's quota is used up: {said}"), False
    if "rate_limit" in about or "rate limit" in about:
        return QuotaExceeded(f"too many requests: {said}"), True
    return ModelUnreachable(f"the provider failed: {said}"), True


def _message_of(body: Any) -> str:
    if isinstance(body, dict):
        for name in ("message", "detail", "error_msg", "error"):
            value = body.get(name)
            if isinstance(value, str) and value:
                return value
            if isinstance(value, dict) and (inner := _message_of(value)):
                return inner
    return body if isinstance(body, str) else ""


def _codes_of(body: Any) -> str:
    if not isinstance(body, dict):
        return ""
    inner = body.get("error")
    here = " ".join(str(body[name]) for name in ("code", "type", "status") if body.get(name))
    return f"{here} {_codes_of(inner)}".strip().lower()


def status_of(body: Any) -> int | None:
    """Return the HTTP status of an error inside a stream, which is its ``code``; None if it has no
    such code."""
    code = body.get("code") if isinstance(body, dict) else None
    try:
        status = int(code) if code is not None else 0
    except (TypeError, ValueError):
        return None
    return status if 400 <= status < 600 else None


def parse_retry_after(value: str | None) -> float | None:
    """Return the seconds in a ``Retry-After`` header; None if the header has no number, or a
    number below 0 or above 31 days."""
    # RFC 9110, 10.2.3, also allows a date, but providers send none to an API client.
    try:
        seconds = float(value) if value is not None else -1.0
    except ValueError:
        return None
    return seconds if 0 <= seconds < 86_400 * 31 else None


def retry_delay_of(body: Any) -> float | None:
    """Return the seconds of Google's ``RetryInfo`` in an error; None if there is none."""
    details = body.get("details") if isinstance(body, dict) else None
    for detail in details if isinstance(details, list) else []:
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return parse_retry_after(delay[:-1])
    return None
