"""Changes values in a YAML file and keeps the rest of the text: comments, the order, and the form
of the other values."""

from collections.abc import Mapping
from io import StringIO
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

_WIDTH = 4096
"""Maximum number of characters of a line. Only longer texts, which are rare, are written on several
lines."""


def changed_yaml(text: str, values: Mapping[str, Any]) -> str:
    """Change a YAML text, so that it has these values. Top-level names that are not in ``values``
    stay; names inside a table that are not in the new table are removed. If the text cannot be
    changed, return a new text that has only these values, without comments."""
    plain = yaml.safe_dump({**values}, allow_unicode=True, sort_keys=False, width=100)
    if not text.strip():
        return plain
    try:
        before = yaml.safe_load(text)
        editor = YAML()
        editor.preserve_quotes = True
        editor.width = _WIDTH
        document = editor.load(text)
        if not isinstance(before, dict) or not isinstance(document, CommentedMap):
            return plain
        _put(document, before, values)
        stream = StringIO()
        editor.dump(document, stream)
        made = stream.getvalue()
        read = yaml.safe_load(made)
    except (YAMLError, yaml.YAMLError, ValueError):
        return plain
    # The two YAML libraries read some words differently, such as "yes". If the result would be read
    # differently, use the plain text.
    return made if isinstance(read, dict) and {**read, **values} == read else plain


def _put(document: CommentedMap, before: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        old = before.get(name)
        inner = document.get(name)
        if isinstance(value, Mapping) and isinstance(old, dict) and isinstance(inner, CommentedMap):
            for gone in [each for each in inner if each not in value]:
                del inner[gone]
            _put(inner, old, value)
        elif name not in before or old != value or type(old) is not type(value):
            document[name] = _written(value)


def _written(value: Any) -> Any:
    match value:
        case str():
            if "\n" in value:
                return LiteralScalarString(value)
            try:
                same = yaml.safe_load(value) == value
            except yaml.YAMLError:
                same = False
            return value if same else DoubleQuotedScalarString(value)
        case Mapping():
            return {str(name): _written(each) for name, each in value.items()}
        case list() | tuple():
            return [_written(each) for each in value]
    return value
