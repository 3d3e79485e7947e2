"""Removes the values of secrets from copies of configuration files.

The configuration of plugins and MCP servers may contain keys of services. The part of a backup that
is not encrypted gets a copy without these values; the encrypted part gets the whole file.
"""

import json
import re
from pathlib import PurePosixPath
from typing import Any

LARGEST = 1024 * 1024
"""Maximum size in bytes of a file that is searched for secrets. A larger file would take much
memory when it is parsed, so it counts as secret as a whole."""

_FILES = re.compile(r"(config|settings)\.(json|toml|ya?ml)|mcp\.json|\.env(\..+)?")
_NAME = re.compile(
    r"token|key(?!word|board)|secret|password|passwd|credential|authorization|cookie", re.IGNORECASE
)
_HOLDS_ALL = ("env", "headers")
"""Every value below these names may be a secret, for example in ``mcp.json``."""


def is_configuration(path: str) -> bool:
    """Return whether a file with this path may contain secrets."""
    return _FILES.fullmatch(PurePosixPath(path).name) is not None


def without_secrets(path: str, data: bytes) -> bytes | None:
    """Return the content of a configuration file with an empty text in place of each secret.
    Returns the same object if the file has no secrets, and None if the file cannot be parsed."""
    name = PurePosixPath(path).name
    import yaml  # noqa: PLC0415 - this import takes 10 ms; only a backup needs it

    try:
        text = data.decode()
        if name.startswith(".env"):
            return None
        if name.endswith(".toml"):
            import tomlkit  # noqa: PLC0415 - this import takes 20 ms; only a backup needs it

            document: Any = tomlkit.parse(text)
            return tomlkit.dumps(document).encode() if _clear(document) else data
        if name.endswith(".json"):
            document = json.loads(text)
            if not _clear(document):
                return data
            return json.dumps(document, ensure_ascii=False, indent=2).encode()
        document = yaml.safe_load(text)
        if not _clear(document):
            return data
        return str(yaml.safe_dump(document, allow_unicode=True, sort_keys=False)).encode()
    except (ValueError, yaml.YAMLError, RecursionError):
        return None


def _clear(value: Any, *, everything: bool = False) -> bool:
    """Replace the secrets in a parsed document with empty texts. With ``everything``, each text in
    it counts as a secret. Return True if there were any."""
    found = False
    if isinstance(value, dict):
        for name in [*value]:
            secret = everything or _NAME.search(str(name)) is not None
            if isinstance(value[name], str):
                if secret and value[name]:
                    value[name] = ""
                    found = True
            else:
                inner = everything or secret or str(name) in _HOLDS_ALL
                found |= _clear(value[name], everything=inner)
    elif isinstance(value, list):
        for at, each in enumerate(value):
            if isinstance(each, str):
                if everything and each:
                    value[at] = ""
                    found = True
            else:
                found |= _clear(each, everything=everything)
    return found
