"""Serves the media of chats and the files of boxes to the console's pages."""

from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Path, Request
from starlette.responses import JSONResponse, Response

from nekro_core.chat import ChatKey, Media
from nekro_core.console.frame import ActorOf
from nekro_core.operator.errors import NoSuchItem, NotAllowed
from nekro_core.operator.media_response import media_response
from nekro_core.operator.operator import Operator
from nekro_core.operator.roles import AccessRole
from nekro_core.system.errors import NekroError

_FILES = "/console/files"
_LARGEST = 2**63 - 1
"""The largest number that a database takes for an id."""


def medium_address(seq: int, number: int) -> str:
    """Return the address of a medium of a message."""
    return f"/ui{_FILES}/media/{seq}/{number}"


def box_file_address(chat_key: ChatKey, box: str, path: str) -> str:
    """Return the address of a file in a box."""
    asked = urlencode({"chat": str(chat_key), "box": box, "path": path}, quote_via=quote)
    return f"/ui{_FILES}/box?{asked}"


def file_routes(operator: Operator, actor_of: ActorOf) -> APIRouter:
    """Make the routes. The guard has checked the login before."""
    router = APIRouter(prefix=_FILES)

    @router.get("/media/{seq}/{number}")
    async def medium(
        request: Request, seq: Annotated[int, Path(le=_LARGEST)], number: int
    ) -> Response:
        actor = actor_of(request)
        if not actor.in_scope("chats", acts=False):
            return _refused(403, "this needs the scope chats:read")
        try:
            found, data = await operator.chats.medium_bytes(actor, seq, number)
        except NotAllowed as error:
            return _refused(403, str(error))
        except NoSuchItem as error:
            return _refused(404, str(error))
        return media_response(found, data, request.headers.get("range", ""))

    @router.get("/box")
    async def box_file(request: Request, chat: str, box: str, path: str) -> Response:
        actor = actor_of(request)
        if not actor.role.allows(AccessRole.OPERATOR) or not actor.in_scope("boxes", acts=True):
            return _refused(403, "this needs the role operator")
        try:
            data = await operator.boxes.read_file(actor, ChatKey.parse(chat), box, path)
        except NekroError as error:
            return _refused(404, str(error))
        # No type is given, so that the browser always downloads the file and does not show it.
        answer = media_response(Media(name=path.rpartition("/")[2]), data, "")
        answer.headers["Cache-Control"] = "no-store"
        return answer

    return router


def _refused(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message}}, status)
