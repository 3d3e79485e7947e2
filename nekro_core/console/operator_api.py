"""Serves all queries and actions of operators over HTTP. See docs/http-api.md.

A query is ``GET <area>/<name>?parameter=value``. An action is ``POST <area>/<name>`` with a JSON
object. In the address of a query, a list is written as a repeated parameter or as JSON, and an
object as JSON. A long action goes on as a job; the request is answered at once with the number of
the job.
"""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from nekro_core.console.openapi import openapi_document
from nekro_core.console.refusals import ActorOf, error_body, refusal
from nekro_core.operator.actions import BoundAction, BoundQuery
from nekro_core.operator.errors import InvalidParameters, NotAllowed
from nekro_core.operator.http_routes import MAX_BODY_BYTES
from nekro_core.operator.json_values import to_json_values
from nekro_core.operator.operator import Operator
from nekro_core.operator.roles import Actor
from nekro_core.system.errors import NekroError

MAX_DEPTH = 64
"""Maximum depth of nested objects and lists in parameters. Values that are nested much deeper
overflow the stack of the code that reads them."""
MAX_PARAMETERS_BYTES = 4 * 1024 * 1024
"""Maximum size of the parameters of an action without a file."""


class OperatorApi:
    """The ASGI application that serves the queries and actions of operators.

    Args:
        operator: The queries and actions.
        actor_of: Returns who makes a request.
        version: The bot's version, for the OpenAPI document.
    """

    def __init__(self, operator: Operator, actor_of: ActorOf, version: str) -> None:
        self._operator = operator
        self._actor_of = actor_of
        self._version = version
        self._document = b""
        self._making_document = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await JSONResponse(error_body("path", "there is no websocket here"), 404)(
                scope, receive, send
            )
            return
        request = Request(scope, receive)
        path = scope["path"].removeprefix(scope.get("root_path", "")).strip("/")
        response = await self._answer(request, path)
        await response(scope, receive, send)

    async def _answer(self, request: Request, path: str) -> Response:
        if path == "openapi.json":
            return Response(await self._openapi(), media_type="application/json")
        try:
            operation = self._operator.operation(path.replace("/", ".", 1))
            actor = self._actor_of(request)
            if isinstance(operation, BoundAction):
                return await self._act(request, actor, operation)
            return await _ask(request, actor, operation)
        except NekroError as error:
            return refusal(request, error)

    async def _openapi(self) -> bytes:
        """Return the OpenAPI document. Making it takes half a second. It is made only once, and in
        a thread, so that the bot can answer chats meanwhile."""
        async with self._making_document:
            if not self._document:
                self._document = await anyio.to_thread.run_sync(self._made_document)
        return self._document

    def _made_document(self) -> bytes:
        return json.dumps(openapi_document(self._operator, self._version)).encode()

    async def _act(
        self, request: Request, actor: Actor, operation: BoundAction[..., Any]
    ) -> Response:
        if request.method != "POST":
            return _wrong_method(operation.full_name, "an action", "POST")
        parameters = await _body(request, _max_bytes(operation, actor))
        if operation.declaration.long:
            job = self._operator.jobs.start(operation, actor, parameters)
            return JSONResponse({"job_id": job.job_id}, 202)
        done = await operation.invoke(actor, parameters)
        return JSONResponse(
            {
                "result": to_json_values(operation.declaration.result_type, done.result),
                "entry_id": done.entry_id,
                "undoable": done.undoable,
            }
        )


async def _ask(request: Request, actor: Actor, operation: BoundQuery[..., Any]) -> Response:
    if request.method not in {"GET", "HEAD"}:
        return _wrong_method(operation.full_name, "a query", "GET")
    result = await operation.invoke(actor, _from_address(request, operation))
    return JSONResponse({"result": to_json_values(operation.declaration.result_type, result)})


def _wrong_method(name: str, kind: str, method: str) -> Response:
    return JSONResponse(
        error_body("method", f"{name} is {kind}: use {method}"), 405, {"Allow": method}
    )


def _max_bytes(operation: BoundAction[..., Any], actor: Actor) -> int:
    """Return the maximum size of a request. It is large only if the action takes a file and the
    actor may call the action."""
    if not operation.declaration.takes_file:
        return MAX_PARAMETERS_BYTES
    try:
        operation.check_role(actor)
    except NotAllowed:
        return MAX_PARAMETERS_BYTES
    return MAX_BODY_BYTES


async def _body(request: Request, max_bytes: int) -> Mapping[str, Any]:
    """Read the parameters of an action. Raises `InvalidParameters`."""
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise InvalidParameters({"body": f"more than {max_bytes} bytes"})
        chunks.append(chunk)
    text = b"".join(chunks)
    if not text.strip():
        return {}
    try:
        parameters = _parsed(text)
    except (ValueError, RecursionError):
        told = f"not JSON of {MAX_DEPTH} levels at most; expected an object of parameters"
        raise InvalidParameters({"body": told}) from None
    if not isinstance(parameters, dict):
        kind = type(parameters).__name__
        raise InvalidParameters({"body": f"JSON {kind}; expected an object of parameters"})
    return parameters


def _parsed(text: str | bytes) -> Any:
    """Parse JSON. Raises `ValueError` if the text is not JSON or is nested deeper than `MAX_DEPTH`.
    Raises `RecursionError` if it is nested so deeply that the parser fails."""
    value = json.loads(text)
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return value
    raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")


def _from_address(request: Request, operation: BoundQuery[..., Any]) -> dict[str, Any]:
    """Read the parameters of an operator's query from the address of a request. If a parameter is a
    list or an object, its text is read as JSON."""
    schema = operation.declaration.parameters.model_json_schema()
    properties, defined = schema.get("properties", {}), schema.get("$defs", {})
    parameters: dict[str, Any] = {}
    for name in request.query_params:
        texts = request.query_params.getlist(name)
        kinds = _kinds(properties.get(name, {}), defined)
        if "array" in kinds and not texts[0].lstrip().startswith("["):
            parameters[name] = texts
        elif kinds & {"array", "object"}:
            try:
                parameters[name] = _parsed(texts[0])
            except (ValueError, RecursionError):
                raise InvalidParameters(
                    {name: f"not readable as JSON of {MAX_DEPTH} levels"}
                ) from None
        elif "null" in kinds and texts[0] == "":
            parameters[name] = None
        else:
            parameters[name] = texts[0]
    return parameters


def _kinds(schema: Mapping[str, Any], defined: Mapping[str, Any]) -> set[str]:
    """Return the JSON types that a parameter can have."""
    if "anyOf" in schema:
        return set().union(*(_kinds(each, defined) for each in schema["anyOf"]))
    if "$ref" in schema:
        return _kinds(defined[schema["$ref"].rpartition("/")[2]], defined)
    return {str(schema.get("type", "string"))}
