"""Reads the body of a request, up to `MAX_BODY_BYTES`."""

import json
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from .attachments import Upload, uploaded_name
from .errors import WebApiError
from .posts import Post
from .settings import MAX_ATTACHMENTS, MAX_BODY_BYTES


async def read_post(request: Request) -> tuple[Post, list[Upload]]:
    """Read a post from a JSON body, or from a form with the fields ``message`` (JSON) and
    ``files``.

    Raises `WebApiError` if the body is too large, has another content type or is not valid.
    """
    bounded = Request(request.scope, _Bounded(request, MAX_BODY_BYTES).receive)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        return _post(await bounded.body()), []
    if kind == "multipart/form-data":
        return await _read_form(bounded)
    raise WebApiError(
        415, "content_type", f"{kind!r}: expected application/json or multipart/form-data"
    )


async def read_json(request: Request) -> dict[str, Any]:
    """Return the object in a JSON body. Raises `WebApiError`."""
    bounded = Request(request.scope, _Bounded(request, MAX_BODY_BYTES).receive)
    try:
        value = json.loads(await bounded.body())
    except (ValueError, RecursionError) as error:
        raise WebApiError(400, "body", f"the body is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise WebApiError(422, "body", f"expected a JSON object, got {type(value).__name__}")
    return value


async def _read_form(request: Request) -> tuple[Post, list[Upload]]:
    try:
        async with request.form(
            max_files=MAX_ATTACHMENTS, max_fields=1, max_part_size=1024 * 1024
        ) as form:
            message = form.get("message")
            if not isinstance(message, str):
                raise WebApiError(400, "body", "the form has no field 'message' with the JSON text")
            files = [part for part in form.getlist("files") if isinstance(part, UploadFile)]
            uploads = [
                Upload(data=await file.read(), name=uploaded_name(file.filename or ""))
                for file in files
            ]
    except HTTPException as error:
        raise WebApiError(400, "body", f"the form cannot be read: {error.detail}") from None
    return _post(message.encode("utf-8", "replace")), uploads


def _post(body: bytes) -> Post:
    try:
        return Post.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "body"
        raise WebApiError(
            400 if first["type"] == "json_invalid" else 422, "body", f"{where}: {first['msg']}"
        ) from None


class _Bounded:
    """Counts the received bytes and raises `WebApiError` above the limit."""

    def __init__(self, request: Request, limit: int) -> None:
        self._receive = request.receive
        self._left = self._limit = limit
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > limit:
            raise self._too_large()

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise self._too_large()
        return message

    def _too_large(self) -> WebApiError:
        return WebApiError(413, "body", f"the request is larger than {self._limit} bytes")
