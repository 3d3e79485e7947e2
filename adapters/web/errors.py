"""Defines the error of the HTTP API, and the route class that converts it to an answer."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from loguru import logger

from nekro_core.api.adapter import StoreUnavailable


class WebApiError(Exception):
    """The request is refused. ``code`` is for programs, ``message`` for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def response(self) -> JSONResponse:
        """Return ``{"error": {"code", "message"}}``."""
        # A message may quote the request with lone surrogates, which cannot be encoded as UTF-8.
        message = self.message.encode("utf-8", "replace").decode()
        return JSONResponse({"error": {"code": self.code, "message": message}}, self.status)


class Route(APIRoute):
    """A route whose handler may raise `WebApiError` or `StoreUnavailable`. Both become answers.
    After `StoreUnavailable`, nothing was stored and the client may try again."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler that FastAPI makes, so that these errors become answers."""
        handler = super().get_route_handler()

        async def answering(request: Request) -> Response:
            try:
                return await handler(request)
            except WebApiError as refused:
                return refused.response()
            except StoreUnavailable as error:
                logger.error("{} {}: {}", request.method, request.url.path, error)
                return WebApiError(503, "store", str(error)).response()

        return answering
