"""Implements the tool ``shell``."""

import secrets
from typing import Any

from nekro_core.sandbox.box import Box, BoxFileError
from nekro_core.sandbox.named import UseEffect
from nekro_core.sandbox.results import CommandOutput, CommandResult
from nekro_core.sandbox.tools.inputs import invalid
from nekro_core.sandbox.tools.pool import SandboxToolCall
from nekro_core.sandbox.tools.result import ErrorCode, SandboxToolError, SandboxToolResult, result

_MAX_COMMAND = 128 * 1024 - 1
"""Maximum length of a command in bytes. It is the limit of Linux for one argument of a program
(MAX_ARG_STRLEN), without the NUL at its end."""


async def shell(call: SandboxToolCall) -> SandboxToolResult:
    """Run a command by ``/bin/sh``. The result is ``{stdout, stderr, exit_code}``.

    If the exit code is not 0, the result is marked as an error and has the same fields. After the
    timeout, the command and all its descendants are killed, and the result has what was printed
    until then.
    """
    command = call.input.text("command")
    if "\0" in command:
        raise invalid("command: no command can hold a NUL character")
    if len(command.encode()) > _MAX_COMMAND:
        raise SandboxToolError(
            ErrorCode.TOO_LARGE,
            f"command: at most {_MAX_COMMAND} bytes; write a longer one to a file and run that",
        )
    folder = call.input.path("working_dir")
    timeout_s = call.input.seconds("timeout_ms", most=call.limits.command_s)

    async def execute(box: Box) -> CommandResult:
        return await box.execute(
            command,
            working_dir=folder,
            timeout_s=timeout_s,
            output_bytes=call.limits.output_bytes,
            spill_to=f"/tmp/shell-{secrets.token_hex(4)}",  # noqa: S108 (the box's own)
        )

    try:
        done = await call.run_in_box(UseEffect.PROCESSES, execute)
    except BoxFileError as error:
        if error.code == ErrorCode.NOT_FOUND:
            raise SandboxToolError(
                ErrorCode.NOT_FOUND, f"working_dir does not exist: {folder}"
            ) from error
        raise
    told: dict[str, Any] = {
        "stdout": done.stdout.text,
        "stderr": done.stderr.text,
        "exit_code": done.exit_code,
    }
    if done.timed_out:
        told["timed_out"] = True
    told |= _left_out("stdout", done.stdout) | _left_out("stderr", done.stderr)
    return result({**told, **call.news}, is_error=done.exit_code != 0)


def _left_out(stream: str, output: CommandOutput) -> dict[str, Any]:
    if not output.truncated:
        return {}
    told: dict[str, Any] = {f"{stream}_truncated": True, f"{stream}_bytes": output.size}
    return told | ({f"{stream}_path": output.path} if output.path else {})
