"""Implements ``nekro operator``: lists, describes and calls the queries and actions of operators.

The command uses the HTTP API of the running bot, so names, parameters and errors are those of the
API.
"""

import argparse
import json
import sys
from typing import Any

import anyio
import httpx

from nekro_core.app.instance import InstanceInfo, find_running_instance
from nekro_core.app.settings import Settings
from nekro_core.system.errors import NekroError

_CALL_S = 60.0
_LOOK_S = 0.3
"""Seconds between two reads of the state of a long action."""

Json = dict[str, Any]


class OperatorCallFailed(NekroError):
    """The bot refused a call, or no bot runs. The text says why."""


async def run(options: argparse.Namespace) -> int:
    """List the operations, describe one, or call it. Returns an exit status. Raises
    `SettingsError`."""
    place = find_running_instance(Settings.load().nekro_data_dir)
    if place is None:
        print("no bot runs here: start it with nekro run", file=sys.stderr)
        return 1
    try:
        async with operator_client(place) as client:
            print(await _answer(client, options))
    except (OperatorCallFailed, httpx.HTTPError) as error:
        print(str(error) or type(error).__name__, file=sys.stderr)
        return 1
    return 0


async def _answer(client: httpx.AsyncClient, options: argparse.Namespace) -> str:
    operations = _operations(checked_answer(await client.get("/openapi.json")))
    if not options.name:
        return _list(operations)
    if options.name not in operations:
        raise OperatorCallFailed(
            f"there is no operation {options.name!r}: nekro operator lists them"
        )
    about = operations[options.name]
    return _help(options.name, about) if options.help_about else await _call(client, options, about)


def operator_client(place: InstanceInfo) -> httpx.AsyncClient:
    """Return a client for the operations of a running bot."""
    return httpx.AsyncClient(
        base_url=f"{place.address}/api/v1/operator",
        headers={"Authorization": f"Bearer {place.token}"},
        timeout=_CALL_S,
        trust_env=False,
    )


async def _call(client: httpx.AsyncClient, options: argparse.Namespace, about: Json) -> str:
    parameters = _parameters(options.parameters, about)
    path = "/" + options.name.replace(".", "/")
    if about["method"] == "get":
        given = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in parameters.items()
        }
        answer = checked_answer(await client.get(path, params=given))
    else:
        if about["destructive"] and not options.yes:
            raise OperatorCallFailed(f"{options.name} deletes for good: repeat it with --yes")
        answer = checked_answer(await client.post(path, json=parameters))
        if "job_id" in answer:
            answer = await _followed(client, answer["job_id"])
    return json.dumps(answer["result"], ensure_ascii=False, indent=2)


async def _followed(client: httpx.AsyncClient, job_id: int) -> Json:
    """Wait for a long action, and print its progress."""
    said = ""
    while True:
        answer = await client.get("/jobs/one", params={"job_id": job_id})
        job: Json = checked_answer(answer)["result"]
        if job["text"] != said and job["state"] == "running":
            said = job["text"]
            print(said, file=sys.stderr)
        if job["state"] == "done":
            return job
        if job["state"] != "running":
            raise OperatorCallFailed(f"{job['state']}: {job['text']}")
        await anyio.sleep(_LOOK_S)


def checked_answer(answer: httpx.Response) -> Json:
    """Return the body of an answer. Raises `OperatorCallFailed` if the bot refused."""
    try:
        said: Json = answer.json()
    except ValueError:
        raise OperatorCallFailed(
            f"the bot answered {answer.status_code}: {answer.text[:200]}"
        ) from None
    if answer.is_error:
        raise OperatorCallFailed(str(said.get("error", {}).get("message", said)))
    return said


def _operations(document: Json) -> dict[str, Json]:
    """Read the operations of the OpenAPI document."""
    operations: dict[str, Json] = {}
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            body = about.get("requestBody", {}).get("content", {}).get("application/json", {})
            properties = body.get("schema", {}).get("properties", {})
            for each in about.get("parameters", ()):
                properties[each["name"]] = {
                    **each["schema"],
                    "description": each["description"],
                }
            operations[path.strip("/").replace("/", ".")] = {
                "method": method,
                "summary": about["summary"],
                "role": about["x-role"],
                "destructive": about.get("x-destructive", False),
                "parameters": properties,
            }
    return operations


def _parameters(written: list[str], about: Json) -> Json:
    """Read parameters in the form ``name=value``. If a parameter is not a text, its value is read
    as JSON if possible."""
    parameters: Json = {}
    for each in written:
        name, equals, text = each.partition("=")
        if not equals:
            raise OperatorCallFailed(f"{each!r}: expected name=value")
        schema = about["parameters"].get(name, {})
        parameters[name] = text if schema.get("type") == "string" else _json_or_text(text)
    return parameters


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _list(operations: dict[str, Json]) -> str:
    width = max(map(len, operations))
    return "\n".join(
        f"{name:{width}}  {about['role']:8}  {about['summary']}"
        for name, about in operations.items()
    )


def _help(name: str, about: Json) -> str:
    lines = [f"{name}: {about['summary']} (role {about['role']})"]
    lines += [
        f"  {parameter}={schema.get('type', 'JSON')}  {schema.get('description', '')}"
        for parameter, schema in about["parameters"].items()
    ]
    return "\n".join(lines)
