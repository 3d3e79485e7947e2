"""Defines what the routes of the HTTP API share: their addresses, their error, and how a body is
read."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from loguru import logger
from starlette.types import Message

from nekro_core.operator.errors import ProcessAway, RefusedElsewhere
from nekro_core.store import StoreUnavailable
from nekro_core.system.errors import NekroError

PAGE = "/ui"
"""Path of the pages that people open after a login."""
API = "/api/v1"
"""Path of the HTTP API."""
PLUGINS = "/plugins"
"""Path of the plugins' pages. Only operators may open them."""
WEBHOOKS = "/api/webhook"
"""Path of webhooks. Other servers call them. They cannot log in, so the address contains a
secret."""
MAX_BODY_BYTES = 64 * 1024 * 1024
"""Maximum number of bytes of a request. The largest attachment takes 43 MB in base64."""


class WebApiError(NekroError):
    """The request is refused.

    Args:
        status: The status of the answer, such as 404.
        code: A short name of what is wrong, for programs.
        message: What is wrong and what to do, for people.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def response(self) -> JSONResponse:
        """Make the answer.

        Returns:
            An answer with ``{"error": {"code", "message"}}``.
        """
        # A message may quote the request with lone surrogates, which cannot be encoded as UTF-8.
        message = self.message.encode("utf-8", "replace").decode()
        return JSONResponse({"error": {"code": self.code, "message": message}}, self.status)


class Route(APIRoute):
    """A route whose handler may raise `WebApiError`, `StoreUnavailable`, `ProcessAway` or
    `RefusedElsewhere`. The route answers with these errors. After `StoreUnavailable`, nothing was
    stored and the client may try again."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler that FastAPI makes, so that these errors become answers.

        Returns:
            The handler.
        """
        handler = super().get_route_handler()

        async def answering(request: Request) -> Response:
            try:
                return await handler(request)
            except WebApiError as refused:
                return refused.response()
            except ProcessAway as error:
                return WebApiError(503, "process_away", str(error)).response()
            except RefusedElsewhere as error:
                return WebApiError(409, "refused", str(error)).response()
            except StoreUnavailable as error:
                logger.error("{} {}: {}", request.method, request.url.path, error)
                return WebApiError(503, "store", str(error)).response()

        return answering


class BoundedBody:
    """Counts the received bytes of a request.

    Args:
        request: The request.
        limit: The largest number of bytes of its body.

    Raises:
        WebApiError: The request says that its body is larger.
    """

    def __init__(self, request: Request, limit: int = MAX_BODY_BYTES) -> None:
        self._receive = request.receive
        self._left = self._limit = limit
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > limit:
            raise self._too_large()

    @classmethod
    def of(cls, request: Request, limit: int = MAX_BODY_BYTES) -> Request:
        """Limit the body of a request.

        Args:
            request: The request.
            limit: The largest number of bytes of its body.

        Returns:
            A new object for the same request. Reading more than ``limit`` bytes of its body raises
            `WebApiError`.
        """
        return Request(request.scope, cls(request, limit).receive)

    async def receive(self) -> Message:
        """Receive a part of the body.

        Returns:
            The ASGI message.

        Raises:
            WebApiError: The body is larger than the limit.
        """
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise self._too_large()
        return message

    def _too_large(self) -> WebApiError:
        return WebApiError(413, "body", f"the request is larger than {self._limit} bytes")


async def read_json(request: Request) -> dict[str, Any]:
    """Return the object in a JSON body. Raises `WebApiError`."""
    try:
        value = json.loads(await BoundedBody.of(request).body())
    except (ValueError, RecursionError) as error:
        raise WebApiError(400, "body", f"the body is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise WebApiError(422, "body", f"expected a JSON object, got {type(value).__name__}")
    return value
