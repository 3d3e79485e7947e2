"""Makes the answers to requests of operators that were refused."""

from collections.abc import Callable
from typing import Any

from loguru import logger
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from nekro_core.operator.errors import (
    ChangedMeanwhile,
    InvalidParameters,
    NoSuchItem,
    NotAllowed,
    ProcessAway,
)
from nekro_core.operator.roles import Actor
from nekro_core.store import StoreUnavailable
from nekro_core.system.errors import NekroError

ActorOf = Callable[[Request], Actor]
"""A function that returns who makes a request. The guard has checked the login before."""


def error_body(code: str, message: str, **more: Any) -> dict[str, Any]:
    """Return the body of an answer that tells an error."""
    message = message.encode("utf-8", "replace").decode()
    return {"error": {"code": code, "message": message, **more}}


def refusal(request: Request, error: NekroError) -> Response:
    """Return the answer to a request that was refused."""
    text = str(error)
    match error:
        case NotAllowed():
            return JSONResponse(error_body("not_allowed", text), 403)
        case InvalidParameters():
            return JSONResponse(error_body("parameters", text, problems=error.problems), 422)
        case NoSuchItem():
            return JSONResponse(error_body("no_such_item", text), 404)
        case ChangedMeanwhile():
            return JSONResponse(error_body("changed_meanwhile", text), 409)
        case ProcessAway():
            return JSONResponse(error_body("process_away", text), 503)
        case StoreUnavailable():
            logger.error("{} {}: {}", request.method, request.url.path, text)
            return JSONResponse(error_body("store", text), 503)
        case _:
            return JSONResponse(error_body("refused", text), 409)
