"""Serves downloads of backups and of the log over HTTP, and takes uploads of backups. See
docs/http-api.md."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.routing import APIRoute

from nekro_core.console.refusals import ActorOf, refusal
from nekro_core.operator.http_routes import API
from nekro_core.operator.late_operator import LateOperator
from nekro_core.system.errors import NekroError


class _FileRoute(APIRoute):
    """A route that turns errors into answers, in the same form as the operations do."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler that FastAPI makes, so that the errors become answers."""
        handler = super().get_route_handler()

        async def answering(request: Request) -> Response:
            try:
                return await handler(request)
            except NekroError as error:
                return refusal(request, error)

        return answering


def download_routes(operator: LateOperator, actor_of: ActorOf) -> APIRouter:
    """Make the routes of files. The areas check roles and scopes.

    Args:
        operator: Gets the areas.
        actor_of: Returns who makes a request. The guard has checked the login before.
    """
    router = APIRouter(prefix=API, route_class=_FileRoute, include_in_schema=False)

    @router.get("/backups/{name}")
    async def download_backup(request: Request, name: str) -> Response:
        areas = await operator.get()
        file = await areas.backups.download(actor_of(request), name=name)
        return FileResponse(file.path, filename=file.name, media_type="application/zip")

    @router.post("/backups")
    async def upload_backup(request: Request) -> Response:
        areas = await operator.get()
        contents = await areas.backups.upload(actor_of(request), request.stream())
        return JSONResponse({"result": {"name": contents.name, "made": contents.made}}, 201)

    @router.get("/logs")
    async def download_log(request: Request) -> Response:
        pieces = (await operator.get()).logs.download(actor_of(request))
        headers = {"Content-Disposition": 'attachment; filename="nekro-log.jsonl"'}
        return StreamingResponse(pieces, media_type="application/x-ndjson", headers=headers)

    return router
