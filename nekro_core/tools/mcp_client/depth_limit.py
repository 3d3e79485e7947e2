"""Cuts messages that are nested too deeply for the JSON reader.

A server lists all its tools in one message. If the schema of one tool is nested too deeply, the bot
could not read any tool of the server without this limit.
"""

import re

from pydantic_core import from_json

MAX_DEPTH = 100
"""How many levels of nesting are kept. The JSON reader fails at 200 levels."""
INSTEAD = b'"nested too deeply"'
# This pattern matches single characters and not whole strings. With a pattern for strings, a quote
# that is never closed would be slow: for each later quote, the pattern would search to the end of
# the message again (64 kB of \\" took 10 s).
_SIGN = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)


def limit_depth(message: bytes) -> bytes:
    """Replace each value that is nested deeper than `MAX_DEPTH` levels by the text `INSTEAD`. A
    message that the JSON reader accepts, or that is not JSON, is returned unchanged."""
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
                # A backslash outside of a string means that the message is not JSON.
                continue
    return message if depth else b"".join((*kept, message[start:]))
