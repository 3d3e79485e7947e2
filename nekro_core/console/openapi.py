"""Describes the operations of operators as an OpenAPI document."""

from typing import Any

from pydantic import TypeAdapter

from nekro_core.operator.actions import BoundAction
from nekro_core.operator.operator import Operation, Operator

_REFERENCES = "#/components/schemas/{model}"
_REFUSALS = {
    "403": "The role or the token of the caller does not allow this.",
    "404": "There is no such thing.",
    "409": "The state of the thing does not allow this, or somebody else has changed it.",
    "422": "A parameter is missing, unknown or has an impossible value.",
}


def openapi_document(operator: Operator, version: str) -> dict[str, Any]:
    """Describe all operations.

    Args:
        operator: The operations.
        version: The bot's version.

    Returns:
        An OpenAPI 3.1 document, as JSON values.
    """
    schemas: dict[str, Any] = {"Error": _ERROR}
    paths = {
        "/" + name.replace(".", "/"): _path(name, operation, schemas)
        for name, operation in sorted(operator.operations().items())
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "nekro-core, operator API", "version": version},
        "servers": [{"url": "/api/v1/operator"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
        },
    }


_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "description": "For programs."},
                "message": {"type": "string", "description": "For people."},
                "problems": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "The faults by parameter, for status 422.",
                },
            },
            "required": ["code", "message"],
        }
    },
}


def _path(name: str, operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    declaration = operation.declaration
    parameters = _taken(declaration.parameters.model_json_schema(ref_template=_REFERENCES), schemas)
    about: dict[str, Any] = {
        "operationId": name,
        "tags": [operation.area.name],
        "summary": declaration.summary.rstrip("."),
        "x-role": declaration.role.value,
        "responses": _responses(operation, schemas),
    }
    if not isinstance(operation, BoundAction):
        required = set(parameters.get("required", ()))
        about["parameters"] = [
            {
                "name": each,
                "in": "query",
                "required": each in required,
                "description": schema.pop("description", ""),
                "schema": schema,
            }
            for each, schema in parameters.get("properties", {}).items()
        ]
        return {"get": about}
    if declaration.destructive:
        about["x-destructive"] = True
    about["requestBody"] = {
        "required": bool(parameters.get("required")),
        "content": {"application/json": {"schema": parameters}},
    }
    return {"post": about}


def _responses(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    declaration = operation.declaration
    result = TypeAdapter(declaration.result_type).json_schema(
        ref_template=_REFERENCES, mode="serialization"
    )
    properties: dict[str, Any] = {"result": _taken(result, schemas)}
    status, text = "200", "The answer."
    if declaration.acts:
        properties["entry_id"] = {"type": "integer", "description": "Its entry in the audit log."}
        properties["undoable"] = {"type": "boolean"}
    if declaration.acts and declaration.long:
        properties = {"job_id": {"type": "integer"}}
        status, text = "202", "The action has begun. `jobs.one` says how far it is."
    answer = {"type": "object", "properties": properties}
    refusals = {
        code: {
            "description": why,
            "content": {
                "application/json": {"schema": {"$ref": _REFERENCES.format(model="Error")}}
            },
        }
        for code, why in _REFUSALS.items()
    }
    return {status: {"description": text, "content": {"application/json": {"schema": answer}}}} | (
        refusals
    )


def _taken(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Move the definitions that a schema contains into the schemas of the whole document. Return
    the schema without them."""
    schemas.update(schema.pop("$defs", {}))
    schema.pop("title", None)
    return schema
