"""Serves the HTTP API of the rooms, for scripts and for the page. See docs/http-api.md."""

from typing import Annotated

import anyio
from fastapi import APIRouter, Header, Query, Request, Response

from nekro_core.api.adapter import Host, OperatorHost
from nekro_core.api.console import API, Route, WebApiError, media_response

from .body import read_post
from .events import EventStream
from .media import find_media
from .posts import PostHandler, repeat_key
from .rooms import BOT_ID, room_key
from .views import Json, record_view, room_view, run_view

INSTANCE = "web"
"""The instance part of this adapter's chat keys."""
MAX_PAGE = 1000
"""Maximum number of records that one request may read."""
MAX_SEQ = 2**63 - 1
"""The largest row id that the databases can store."""


def http_api(
    host: Host,
    operator: OperatorHost,
    poster: PostHandler,
    bot_name: str,
    closing: anyio.Event,
) -> APIRouter:
    """Make the router, which the application includes."""
    router = APIRouter(prefix=API, route_class=Route, include_in_schema=False)

    @router.get("/rooms")
    async def list_rooms() -> Json:
        keys = await operator.chats.of_instance(INSTANCE)
        return {
            "bot": {"id": BOT_ID, "name": bot_name},
            "rooms": [room_view(key, working=operator.sessions.working(key)) for key in keys],
        }

    @router.get("/rooms/{room}/messages")
    async def read_history(
        room: str, after: str = "0", limit: Annotated[str, Query()] = "200"
    ) -> Json:
        key = room_key(INSTANCE, room)
        records = await host.records(
            key,
            after=_number("after", after, 0, MAX_SEQ),
            limit=_number("limit", limit, 1, MAX_PAGE),
        )
        return {
            **room_view(key, working=operator.sessions.working(key)),
            "messages": [record_view(record) for record in records],
        }

    @router.post("/rooms/{room}/messages")
    async def post_message(
        request: Request, room: str, idempotency_key: Annotated[str, Header()] = ""
    ) -> Json:
        key = room_key(INSTANCE, room)
        repeat = repeat_key(idempotency_key)
        post, uploads = await read_post(request)
        return record_view(await poster.post(key, post, uploads, repeat))

    @router.get("/rooms/{room}/events")
    async def follow(
        room: str, after: str = "", last_event_id: Annotated[str, Header()] = ""
    ) -> Response:
        # A browser that reconnects sends its old "after" again, so the header is preferred.
        text = last_event_id or after
        start = _number("Last-Event-ID", text, 0, MAX_SEQ) if text else None
        return EventStream(host, operator, room_key(INSTANCE, room), after=start, closing=closing)

    @router.get("/rooms/{room}/media/{seq}/{index}")
    async def fetch_media(request: Request, room: str, seq: str, index: str) -> Response:
        media, data = await find_media(
            host,
            operator,
            room_key(INSTANCE, room),
            _number("seq", seq, 1, MAX_SEQ),
            _number("index", index, 0, 10_000),
        )
        return media_response(media, data, request.headers.get("range", ""))

    @router.get("/rooms/{room}/runs/{run_id}")
    async def read_run(room: str, run_id: str) -> Json:
        runs = await operator.runs.beside(run_id)
        run = next((run for run in runs if run.run_id == run_id), None)
        if run is None or run.chat_key != room_key(INSTANCE, room):
            raise WebApiError(404, "run", "no such run in this room")
        return {**run_view(run), "turn": [run_view(each) for each in runs]}

    @router.post("/rooms/{room}/stop")
    async def stop(room: str) -> dict[str, bool]:
        return {"stopped": await operator.sessions.stop(room_key(INSTANCE, room))}

    return router


def _number(what: str, text: str, least: int, most: int) -> int:
    # The check is stricter than ``int``, which accepts underscores, blanks, digits of other scripts
    # and very long numbers.
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and least <= int(text) <= most):
        raise WebApiError(
            400, "number", f"{what}: {text[:40]!r}, expected a number from {least} to {most}"
        )
    return int(text)
