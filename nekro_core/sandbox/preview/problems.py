"""Defines the reasons why a visitor gets no page from a box, and sends the answer with the
reason."""

from collections.abc import Callable
from enum import StrEnum

from starlette.types import Scope, Send

from nekro_core.sandbox.preview.request import RequestBody

Say = Callable[[str, str], str]
"""Returns the sentence for a key (``preview.asleep``) in a language (BCP 47)."""


class PreviewProblem(StrEnum):
    """Why a preview failed. The value is the last part of the catalogue key of a sentence."""

    UNKNOWN = "unknown"
    ASLEEP = "asleep"
    NOTHING_LISTENS = "nothing_listens"
    LOST = "lost"
    BROKEN_ANSWER = "broken_answer"
    LATE_ANSWER = "late_answer"
    BUSY = "busy"
    BAD_REQUEST = "bad_request"
    TOO_LARGE = "too_large"
    LATE_UPLOAD = "late_upload"


_STATUS = {
    PreviewProblem.UNKNOWN: 404,
    PreviewProblem.ASLEEP: 503,
    PreviewProblem.NOTHING_LISTENS: 502,
    PreviewProblem.LOST: 502,
    PreviewProblem.BROKEN_ANSWER: 502,
    PreviewProblem.LATE_ANSWER: 504,
    PreviewProblem.BUSY: 503,
    PreviewProblem.BAD_REQUEST: 400,
    PreviewProblem.TOO_LARGE: 413,
    PreviewProblem.LATE_UPLOAD: 408,
}


async def send_problem(
    problem: PreviewProblem, say: Say, scope: Scope, body: RequestBody, send: Send
) -> None:
    """Answer a request with the problem's sentence, or refuse a WebSocket with this sentence. If
    the web server cannot send a sentence to a WebSocket that is refused, it is only closed. The
    caller must not have accepted the WebSocket."""
    language = next(
        (value.decode("latin-1") for name, value in scope["headers"] if name == b"accept-language"),
        "",
    )
    wanted = language.split(",")[0].split(";")[0].strip()
    sentence = say(f"preview.{problem}", wanted).encode() + b"\n"
    kind = "http.response"
    if scope["type"] == "websocket":
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1011})
            return
        kind = "websocket.http.response"
    await send(
        {
            "type": f"{kind}.start",
            "status": _STATUS[problem],
            "headers": [
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", str(len(sentence)).encode()),
                (b"cache-control", b"no-store"),
                (b"x-content-type-options", b"nosniff"),
                # After this answer, the web server must not parse the unread rest of the body as a
                # new request.
                (b"connection", b"close"),
            ],
        }
    )
    await send({"type": f"{kind}.body", "body": sentence, "more_body": True})
    await body.linger()
    await send({"type": f"{kind}.body", "body": b""})
