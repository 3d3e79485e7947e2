"""Reads the post in the body of a request."""

from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from nekro_core.api.console import BoundedBody, WebApiError

from .attachments import Upload, uploaded_name
from .posts import Post
from .settings import MAX_ATTACHMENTS


async def read_post(request: Request) -> tuple[Post, list[Upload]]:
    """Read a post from a JSON body, or from a form with the fields ``message`` (JSON) and
    ``files``.

    Raises `WebApiError` if the body is too large, has another content type or is not valid.
    """
    bounded = BoundedBody.of(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        return _post(await bounded.body()), []
    if kind == "multipart/form-data":
        return await _read_form(bounded)
    raise WebApiError(
        415, "content_type", f"{kind!r}: expected application/json or multipart/form-data"
    )


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
