"""Programs call every query and action over HTTP, and get the same errors as the pages."""

import base64
import json
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from nekro_core.app.app import App
from nekro_core.console.operator_api import OperatorApi
from nekro_core.operator.actions import BoundAction
from nekro_core.operator.errors import NotAllowed
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin

pytestmark = pytest.mark.jail

DEEP = b'{"delivery_id": ' + b"[" * 500 + b"]" * 500 + b"}"


async def test_a_text_of_one_word_in_a_query_needs_no_json_quotation_marks(
    api: httpx.AsyncClient,
) -> None:
    answer = await api.get("/chats/newest", params={"state": "observe", "before": "5"})
    assert answer.json() == {"result": {"chats": [], "before": 0}}
    assert (await api.get("/chats/newest", params={"state": ""})).status_code == 200


async def test_a_query_answers_with_json(api: httpx.AsyncClient) -> None:
    answer = await api.get("/undelivered/newest", params={"states": ["pending", "sending"]})
    assert (answer.status_code, answer.json()) == (200, {"result": []})


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/undelivered/nothing", 404, "there is no operation 'undelivered.nothing'"),
        ("GET", "/", 404, "there is no operation"),
        ("GET", "/undelivered/drop", 405, "undelivered.drop is an action: use POST"),
        ("POST", "/undelivered/newest", 405, "undelivered.newest is a query: use GET"),
        ("GET", "/undelivered/newest?limit=0", 422, "limit: Input should be greater than or equal"),
        ("GET", "/undelivered/newest?limit=many", 422, "limit: Input should be a valid integer"),
        ("GET", "/undelivered/newest?chat_key=x", 422, "chat_key: 'x' is no chat key"),
        ("GET", "/undelivered/newest?states=[", 422, "states: not readable as JSON"),
        (
            "GET",
            "/chats/newest?state=asleep",
            422,
            "state: Input should be 'on', 'observe' or 'off'",
        ),
        ("GET", f"/undelivered/newest?states={'[' * 500}{']' * 500}", 422, "JSON of 64 levels"),
        ("GET", "/undelivered/newest?color=red", 422, "color: Extra inputs are not permitted"),
        ("POST", "/undelivered/drop", 422, "delivery_id: Field required"),
    ],
)
async def test_a_wrong_request_gets_an_error_that_says_what_is_wrong(
    api: httpx.AsyncClient, method: str, path: str, status: int, text: str
) -> None:
    answer = await api.request(method, path)
    assert answer.status_code == status
    assert text in answer.json()["error"]["message"]


@pytest.mark.parametrize("body", [b"[1]", b"{", b"\xff", b"[" * 100_000, b'"text"', DEEP])
async def test_a_body_that_is_not_an_object_is_refused(api: httpx.AsyncClient, body: bytes) -> None:
    answer = await api.post("/undelivered/drop", content=body)
    assert answer.status_code == 422
    assert "expected an object of parameters" in answer.json()["error"]["message"]


async def test_a_failed_action_says_why_and_is_in_the_audit_log(api: httpx.AsyncClient) -> None:
    answer = await api.post("/undelivered/resend", json={"delivery_id": "none"})
    assert answer.status_code == 409
    log = (await api.get("/audit/newest", params={"area": "undelivered"})).json()["result"]
    assert (log[0]["action"], log[0]["outcome"], log[0]["actor"]) == (
        "undelivered.resend",
        "failed",
        "owner",
    )


async def test_only_an_owner_uploads_a_plugin_of_six_megabytes(
    api: httpx.AsyncClient,
) -> None:
    data = base64.b64encode(b"# " + b"x" * 6_000_000).decode()
    given = {"name": "large.py", "data": data}
    answer = await api.post("/plugins/upload", json=given)
    assert answer.status_code == 200, answer.text
    assert Path(answer.json()["result"]).stat().st_size == 6_000_002
    for path, role in (("/plugins/upload", "operator"), ("/undelivered/drop", "owner")):
        answer = await api.post(path, json=given, headers={"x-role": role})
        assert answer.status_code == 422
        assert answer.json()["error"]["message"].endswith("body: more than 4194304 bytes")


def a_value(schema: dict[str, Any]) -> object:
    """The example that the schema of a parameter has, or a value of its type."""
    if "enum" in schema:
        return schema["enum"][0]
    for each in schema.get("anyOf", ()):
        return a_value(each)
    values = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
    return values.get(schema.get("type", "string"), "x")


async def test_every_operation_refuses_each_role_that_is_too_small(
    app: App, api: httpx.AsyncClient
) -> None:
    """Call every operation with every role: a role that is too small gets status 403."""
    denied = 0
    for name, operation in app.operations.operations().items():
        declaration = operation.declaration
        for role in AccessRole:
            if role.allows(declaration.role):
                continue
            schema = declaration.parameters.model_json_schema().get("properties", {})
            given = {key: a_value(each) for key, each in schema.items()}
            path, headers = "/" + name.replace(".", "/"), {"x-role": role.value}
            if isinstance(operation, BoundAction):
                answer = await api.post(path, json=given, headers=headers)
            else:
                answer = await api.get(path, headers=headers)
            assert answer.status_code == 403, (name, role, answer.text)
            denied += 1
    assert denied


async def test_every_action_has_a_role_and_writes_an_audit_entry(app: App) -> None:
    """Each action is called with a token without scopes, from a separate address, because the log
    leaves out further refusals of one address."""
    acting = {
        name: each
        for name, each in app.operations.operations().items()
        if isinstance(each, BoundAction)
    }
    for number, (name, operation) in enumerate(acting.items()):
        assert operation.declaration.role in AccessRole, name
        actor = Actor(
            name="a token",
            role=AccessRole.OWNER,
            origin=RequestOrigin.API,
            address=f"10.0.0.{number}",
            scopes=frozenset(),
        )
        with pytest.raises(NotAllowed, match=f"{name} needs the scope"):
            await operation.invoke(actor, {})
        (entry,) = await app.operations.audit.audit_log.rows.newest(limit=1)
        who = (entry.actor, entry.role, entry.origin, entry.address)
        assert (entry.action, entry.outcome) == (name, "denied")
        assert who == ("a token", "owner", "api", actor.address)
    assert len(acting) > 80


async def test_the_openapi_document_describes_every_operation(
    app: App, api: httpx.AsyncClient
) -> None:
    document = (await api.get("/openapi.json")).json()
    for name, operation in app.operations.operations().items():
        acts = isinstance(operation, BoundAction)
        about = document["paths"]["/" + name.replace(".", "/")]["post" if acts else "get"]
        assert about["summary"], f"{name} has no docstring"
        assert about["x-role"] == operation.declaration.role.value
        for each in about.get("parameters", ()):
            assert each["description"], f"{name}: {each['name']} is not described"
    references = set(json.dumps(document).split('"$ref": "#/components/schemas/')[1:])
    known = document["components"]["schemas"]
    assert {each.partition('"')[0] for each in references} <= known.keys()


async def test_chats_get_answers_while_the_openapi_document_is_made(app: App) -> None:
    owner = Actor(name="owner", role=AccessRole.OWNER, origin=RequestOrigin.API)
    served = OperatorApi(app.operations, lambda _: owner, "1.0")
    turns = 0

    async def chat() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(0.001)
            turns += 1

    transport = httpx.ASGITransport(served)
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://bot") as fresh,
        anyio.create_task_group() as others,
    ):
        others.start_soon(chat)
        first = await fresh.get("/openapi.json")
        others.cancel_scope.cancel()
        assert turns > 5, "the document takes some hundred milliseconds"
        assert len(first.json()["paths"]) == len(app.operations.operations())
