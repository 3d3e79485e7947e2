"""How a command's name is written, and when two are the same."""

import re
import unicodedata

MAX_NAME = 64
_NAME = re.compile(r"[^\W_][\w-]*(\.[\w-]+)*\Z")


def folded(name: str) -> str:
    """The name without differences of case and width, with ``-`` and ``_`` as one."""
    return unicodedata.normalize("NFKC", name[: 4 * MAX_NAME]).casefold().replace("-", "_")


def is_name(name: str) -> bool:
    """Whether a command can have it: letters, digits, ``-``, ``_``, and ``.`` for a group's."""
    return len(name) <= MAX_NAME and _NAME.match(name) is not None
