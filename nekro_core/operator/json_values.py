"""Converts parameters and results of operations to JSON values and back."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from loguru import logger
from pydantic import BaseModel, SecretStr, TypeAdapter
from pydantic_core import PydanticSerializationError


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    """Return the object that converts values of a type. It is kept, because making it takes as long
    as all other work for a small answer. There is one type for each operation."""
    return TypeAdapter(annotation)


def to_json_values(annotation: Any, value: Any) -> Any:
    """Convert the result of an operation to JSON values. ``annotation`` is its type."""
    try:
        return _adapter(annotation).dump_python(value, mode="json")
    except PydanticSerializationError as error:
        # A text in the value has a lone surrogate (half of a character), which UTF-8 cannot encode.
        logger.debug("a value cannot be shown as it is: {}", error)
        return json.loads(json.dumps(value, default=str).encode("utf-8", "replace"))


def from_json_values(annotation: Any, value: Any) -> Any:
    """Read what `to_json_values` returned. Raises `pydantic.ValidationError`."""
    return _adapter(annotation).validate_python(value)


def parameters_to_json(model: type[BaseModel], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Convert validated parameters to JSON values. ``model`` has their types. Secrets are written
    in clear."""
    return {
        name: value.get_secret_value()
        if isinstance(value, SecretStr)
        else to_json_values(model.model_fields[name].annotation, value)
        for name, value in parameters.items()
    }
