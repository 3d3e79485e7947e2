"""Replaces what looks like a secret with stars: in texts that the audit log stores, and in values
that are shown to people who may not change them.

Actions take secrets in separate parameters of the type `pydantic.SecretStr`. But a person may write
a secret into another parameter, for example into an address. The action refuses that, but the log
stores the parameters of refused actions too.
"""

import re
from typing import Any

STARS = "***"
_NAME = re.compile(
    r"(?:token|(?<!chat_)key|secret|passw(?:or)?d|passphrase|authorization|cookie|credentials?)$",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"(://[^/?#\s:@]*:)[^/?#\s@]+(?=@)")
"""Finds the password in an address."""
_IN_QUERY = re.compile(
    r"([?&][\w.-]*(?:token|key|secret|passw(?:or)?d|signature)=)(?!\$\{)[^&#\s]+", re.IGNORECASE
)

_OPTION = re.compile(
    r"(?<!\S)(--?[\w-]*(?:token|key|secret|passw(?:or)?d)=)(?!\$\{)\S+", re.IGNORECASE
)
"""Finds an option of a program that contains a secret, for example ``--token=...``."""


def masked_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Apply `masked` to each parameter of an action. The name of a parameter alone is no reason to
    replace its value."""
    return {name: masked(each) for name, each in parameters.items()}


def masked(value: Any) -> Any:
    """Return a JSON value with stars in place of what looks like a secret: texts in an object under
    a name such as ``api_key``, and passwords and keys in addresses and in options of programs.

    ``${NAME}`` is only a reference to a secret, so it is not replaced.
    """
    if isinstance(value, str):
        return masked_text(value)
    if isinstance(value, list):
        return [masked(each) for each in value]
    if isinstance(value, dict):
        return {
            name: STARS
            if isinstance(each, str) and each and _NAME.search(name) and "${" not in each
            else masked(each)
            for name, each in value.items()
        }
    return value


def masked_text(text: str) -> str:
    """Return a text with stars in place of the passwords and keys in addresses and options."""
    for pattern in (_PASSWORD, _IN_QUERY, _OPTION):
        text = pattern.sub(rf"\1{STARS}", text)
    return text
