"""Redirects the old addresses of the pages of turns, undelivered messages and plugins to the
console."""

from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.responses import RedirectResponse

from nekro_core.operator.http_routes import PAGE

TURNS = f"{PAGE}/console/turns"
UNDELIVERED = f"{PAGE}/console/undelivered"
PLUGINS = f"{PAGE}/console/plugins"
_MOVED = 308


def moved_turns() -> APIRouter:
    """Make the router for ``/ui/turns``. It must be included before the pages are mounted."""
    router = APIRouter(include_in_schema=False)

    @router.get(f"{PAGE}/turns")
    async def to_list(chat: str = "") -> RedirectResponse:
        query = f"?{urlencode({'chat': chat[:300]})}" if chat else ""
        return RedirectResponse(TURNS + query, _MOVED)

    @router.get(f"{PAGE}/turns/{{turn_id:int}}")
    async def to_turn(turn_id: int) -> RedirectResponse:
        return RedirectResponse(f"{TURNS}/{turn_id}", _MOVED)

    return router


def moved_outbox() -> APIRouter:
    """Make the router for ``/ui/outbox``. It must be included before the pages are mounted."""
    router = APIRouter(include_in_schema=False)

    @router.get(f"{PAGE}/outbox")
    async def to_list() -> RedirectResponse:
        return RedirectResponse(UNDELIVERED, _MOVED)

    return router


def moved_plugins() -> APIRouter:
    """Make the router for ``/ui/plugins``. It must be included before the pages are mounted."""
    router = APIRouter(include_in_schema=False)

    @router.get(f"{PAGE}/plugins")
    async def to_list() -> RedirectResponse:
        return RedirectResponse(PLUGINS, _MOVED)

    return router
