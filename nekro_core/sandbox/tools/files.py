"""Implements the tools ``read_file``, ``write_file`` and ``glob``."""

import base64
import binascii
from typing import Any

from nekro_core.sandbox.box import Box
from nekro_core.sandbox.named import UseEffect
from nekro_core.sandbox.results import FileChunk, GlobResult
from nekro_core.sandbox.tools.inputs import invalid
from nekro_core.sandbox.tools.pool import SandboxToolCall
from nekro_core.sandbox.tools.result import ErrorCode, SandboxToolError, SandboxToolResult, result
from nekro_core.sandbox.tools.text import UTF8_MARGIN, slice_text

_LARGEST = 2**53
"""The largest ``offset`` that a call may name. Up to this number, all JSON parsers read whole
numbers exactly."""


async def read_file(call: SandboxToolCall) -> SandboxToolResult:
    """Read a slice of a file. The result is ``{content, size}``. ``size`` is the size of the whole
    file.

    If the slice cuts a code point, the content has only the whole code points. Then ``offset`` says
    where the content begins, and ``next_offset`` where the next slice begins. Bytes that are not
    text are encoded as ``base64``.
    """
    path = call.input.file_path("path")
    offset = call.input.whole("offset", least=0, most=_LARGEST) or 0
    asked = call.input.whole("limit", least=1, most=_LARGEST)
    limit = min(asked or call.limits.read_bytes, call.limits.read_bytes)
    first = max(0, offset - UTF8_MARGIN)

    async def read(box: Box) -> FileChunk:
        return await box.read_piece(path, offset=first, limit=offset - first + limit + UTF8_MARGIN)

    piece = await call.run_in_box(UseEffect.NOTHING, read)
    begin = offset - first
    data = piece.data[begin : begin + limit]
    cut = slice_text(data, before=piece.data[:begin], after=piece.data[begin + limit :])
    told: dict[str, Any] = {}
    if cut is None:
        told = {"content": base64.b64encode(data).decode(), "encoding": "base64"}
    else:
        told = {"content": cut.text}
    told["size"] = piece.size
    end = offset + len(data)
    if data and end < piece.size:
        told["truncated"] = True
    if cut is not None and cut.skipped:
        told["offset"] = offset + cut.skipped
    if cut is not None and cut.left:
        told["next_offset"] = end - cut.left
    return result({**told, **call.news})


async def write_file(call: SandboxToolCall) -> SandboxToolResult:
    """Replace a file or append to it. The result is ``{ok, size}``. ``size`` is the file's new
    size."""
    path = call.input.file_path("path")
    append = call.input.flag("append")
    data = _bytes(call)

    async def write(box: Box) -> int:
        return await box.write_file(path, data, append=append)

    size = await call.run_in_box(UseEffect.FILES, write)
    return result({"ok": True, "size": size, **call.news})


async def glob(call: SandboxToolCall) -> SandboxToolResult:
    """Find the paths that match a pattern. The result is ``{files}``: the paths, sorted and
    relative to ``cwd``."""
    pattern, folder = call.input.path("pattern"), call.input.path("cwd")

    async def find(box: Box) -> GlobResult:
        return await box.glob(pattern, working_dir=folder, limit=call.limits.paths)

    found = await call.run_in_box(UseEffect.NOTHING, find)
    shown: list[str] = []
    size = 0
    for path in found.paths:
        size += len(path)
        if size > call.limits.paths_bytes:
            break
        shown.append(path)
    told: dict[str, Any] = {"files": shown}
    if found.truncated or len(shown) < len(found.paths):
        told["truncated"] = True
    return result({**told, **call.news})


def _bytes(call: SandboxToolCall) -> bytes:
    content = call.input.text("content")
    if call.input.text("encoding") == "base64":
        try:
            data = base64.b64decode("".join(content.split()), validate=True)
        except (binascii.Error, ValueError):
            raise invalid("content: this is no base64") from None
    else:
        data = content.encode()
    if len(data) > call.limits.write_bytes:
        raise SandboxToolError(
            ErrorCode.TOO_LARGE,
            f"content: {len(data)} bytes; at most {call.limits.write_bytes} in one call, and the "
            "rest with append",
        )
    return data
