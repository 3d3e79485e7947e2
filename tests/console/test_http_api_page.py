"""``docs/http-api.md`` lists every operation. ``WRITE_DOCS=1 pytest tests/console`` writes the
page."""

import os
from pathlib import Path
from typing import Any

import pytest

from nekro_core.app.app import App
from nekro_core.console.openapi import openapi_document

pytestmark = pytest.mark.jail

PAGE = Path(__file__).parents[2] / "docs" / "http-api.md"
BEGIN, END = "<!-- operations -->", "<!-- end of operations -->"


def type_of(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """The type of a parameter in a few words."""
    if "$ref" in schema:
        return type_of(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    if "anyOf" in schema:
        kinds = [type_of(each, schemas) for each in schema["anyOf"] if each != {"type": "null"}]
        return " or ".join(dict.fromkeys(kinds))
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}), schemas)}"
    return str(schema.get("type", "JSON"))


def row(path: str, method: str, about: dict[str, Any], schemas: dict[str, Any]) -> str:
    body = about.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = body.get("schema", {})
    taken = [
        (name, each, name in schema.get("required", ()), each.get("description", ""))
        for name, each in schema.get("properties", {}).items()
    ]
    taken += [
        (each["name"], each["schema"], each["required"], each["description"])
        for each in about.get("parameters", ())
    ]
    parameters = "<br>".join(
        f"`{name}`{'' if needed else '?'} ({type_of(each, schemas)}): {text}"
        for name, each, needed, text in taken
    ).replace("|", "\\|")
    deletes = " Deletes for good." if about.get("x-destructive") else ""
    job = " Answers 202 with a job." if "202" in about["responses"] else ""
    return (
        f"| `{method.upper()} {path}` | {about['x-role']} | {about['summary']}.{deletes}{job} | "
        f"{parameters} |"
    )


def table(document: dict[str, Any]) -> str:
    lines = ["| request | role | what it does | parameters (`?`: optional) |", "|---|---|---|---|"]
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            lines.append(row(path, method, about, document["components"]["schemas"]))
    return "\n".join(lines)


def test_the_page_lists_every_operation(app: App) -> None:
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{table(openapi_document(app.operations, ''))}\n{END}{after}"
    if os.environ.get("WRITE_DOCS"):
        PAGE.write_text(wanted, "utf-8")
    assert page == wanted, "write it again: WRITE_DOCS=1 pytest tests/console"
