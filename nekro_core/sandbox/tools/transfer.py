"""Implements the tool ``transfer``."""

import posixpath
from contextlib import AsyncExitStack, aclosing
from typing import Any

from nekro_core.sandbox.named import UseEffect
from nekro_core.sandbox.results import FileKind
from nekro_core.sandbox.tools.inputs import HOME, invalid
from nekro_core.sandbox.tools.pool import SandboxToolCall
from nekro_core.sandbox.tools.result import ErrorCode, SandboxToolError, SandboxToolResult, result

_MAX_SKIPPED = 50


async def transfer(call: SandboxToolCall) -> SandboxToolResult:
    """Copy a file or a folder from one box to another, as a stream. The result is ``{ok, bytes}``.

    ``to_path`` is the path of the copy itself. For a file, it may also be an existing folder, into
    which the file is copied. ``bytes`` is the size of all regular files that were written. Paths
    that cannot be copied are listed in ``skipped``.
    """
    given = call.input
    source, target = given.file_path("from_path"), given.file_path("to_path")
    recursive = given.flag("recursive")
    is_same = call.name("from_sandbox") == call.name("to_sandbox")
    source_full, target_full = _full(source), _full(target)
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(call.use("to_sandbox", UseEffect.FILES))
        here = there
        if not is_same:
            here = await stack.enter_async_context(call.use("from_sandbox", UseEffect.NOTHING))
        found = await here.box.status(source)
        if found is None:
            raise SandboxToolError(ErrorCode.NOT_FOUND, f"from_path does not exist: {source}")
        if found.kind is FileKind.DIRECTORY and not recursive:
            raise SandboxToolError(
                ErrorCode.IS_A_DIRECTORY, f"{source} is a folder: copy it with recursive"
            )
        if is_same and source_full == target_full:
            return result({"ok": True, "bytes": 0, **call.news})
        if is_same and target_full.startswith(f"{source_full}/"):
            raise invalid(f"to_path: {target} is inside of what is copied, {source}")
        pieces = await stack.enter_async_context(
            aclosing(here.box.pack(source, recursive=recursive))
        )
        unpacked = await there.box.unpack(target, pieces)
    told: dict[str, Any] = {"ok": True, "bytes": unpacked.bytes}
    if unpacked.skipped:
        shown = unpacked.skipped[:_MAX_SKIPPED]
        told["skipped"] = [{"path": each.path, "reason": each.reason} for each in shown]
        if len(unpacked.skipped) > len(shown):
            told["skipped_more"] = len(unpacked.skipped) - len(shown)
    return result({**told, **call.news})


def _full(path: str) -> str:
    return posixpath.normpath(posixpath.join(HOME, path))
