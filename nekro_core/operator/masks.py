"""Replaces what looks like a secret in what the audit log stores.

Secrets have parameters of their own, of the type `pydantic.SecretStr`. But a person may write one
where it does not belong, for example into an address. The action then refuses it, and the log has
the parameters of refused actions too.
"""

import re
from typing import Any

STARS = "***"
_NAME = re.compile(
    r"(?:token|(?<!chat_)key|secret|passw(?:or)?d|passphrase|authorization|cookie|credentials?)$",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"(://[^/?#\s:@]*:)[^/?#\s@]+(?=@)")
"""The password in an address."""
_IN_QUERY = re.compile(
    r"([?&][\w.-]*(?:token|key|secret|passw(?:or)?d|signature)=)[^&#\s]+", re.IGNORECASE
)

_OPTION = re.compile(
    r"(?<!\S)(--?[\w-]*(?:token|key|secret|passw(?:or)?d)=)(?!\$\{)\S+", re.IGNORECASE
)
"""An option of a program, for example ``--token=...``."""


def masked(value: Any) -> Any:
    """Return a JSON value with stars in place of what looks like a secret: texts in an object under
    a name such as ``api_key``, and passwords and keys in addresses and in options of programs.

    A name of the outermost object is the name of a parameter, and is not looked at. ``${NAME}``
    only stands for a secret, and stays.
    """
    if isinstance(value, dict):
        return {name: _inner(each) for name, each in value.items()}
    return _inner(value)


def masked_text(text: str) -> str:
    """Return a text with stars in place of the passwords and keys in addresses and options."""
    for pattern in (_PASSWORD, _IN_QUERY, _OPTION):
        text = pattern.sub(rf"\1{STARS}", text)
    return text


def _inner(value: Any) -> Any:
    if isinstance(value, str):
        return masked_text(value)
    if isinstance(value, list):
        return [_inner(each) for each in value]
    if isinstance(value, dict):
        return {
            name: STARS
            if isinstance(each, str) and each and _NAME.search(name) and "${" not in each
            else _inner(each)
            for name, each in value.items()
        }
    return value
