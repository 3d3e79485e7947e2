"""Cuts messages that are nested too deeply for the JSON reader.

Without it one tool with such a schema would hide all others of its server, since they come in one
message.
"""

import re

from pydantic_core import from_json

MAX_DEPTH = 100
"""Levels that stay; the JSON reader gives up at 200."""
INSTEAD = b'"nested too deeply"'
# Single signs, not whole strings: with an unclosed quote, each later one would search to the end
# again (64 kB of \\" took 10 s).
_SIGN = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)


def limit_depth(message: bytes) -> bytes:
    """Replace each value below `MAX_DEPTH` levels of a JSON message by a text that says so. A
    message that can be read, or is not JSON, is returned unchanged."""
    if message.count(b"[") + message.count(b"{") <= MAX_DEPTH:
        return message
    try:
        from_json(message)
    except ValueError as error:
        return _cut(message) if "recursion limit" in str(error) else message
    return message


def _cut(message: bytes) -> bytes:
    kept: list[bytes] = []
    depth = start = 0
    in_string = False
    for found in _SIGN.finditer(message):
        match found[0]:
            case b'"':
                in_string = not in_string
            case _ if in_string:
                continue
            case b"[" | b"{":
                if depth == MAX_DEPTH:
                    kept += (message[start : found.start()], INSTEAD)
                depth += 1
            case b"]" | b"}":
                depth -= 1
                if depth == MAX_DEPTH:
                    start = found.end()
            case _:
                continue  # an escape outside of strings: no JSON
    return message if depth else b"".join((*kept, message[start:]))
