"""Runs one tool call. It always returns a result, also after an error."""

import logging
from collections.abc import Awaitable, Callable, Mapping

from nekro_core.sandbox.box import (
    BackendUnavailable,
    BoxesFull,
    BoxFileError,
    BoxLost,
    ImageUnavailable,
    SandboxError,
)
from nekro_core.sandbox.named import ImageMismatch, StoredBoxUnreadable, TooManyBoxes
from nekro_core.sandbox.tools.boxes import browse, sandbox_create, sandbox_list
from nekro_core.sandbox.tools.files import glob, read_file, write_file
from nekro_core.sandbox.tools.inputs import ToolInput, read_input
from nekro_core.sandbox.tools.pool import SandboxPool, SandboxToolCall
from nekro_core.sandbox.tools.result import ErrorCode, SandboxToolError, SandboxToolResult, failure
from nekro_core.sandbox.tools.shell import shell
from nekro_core.sandbox.tools.transfer import transfer

_log = logging.getLogger(__name__)

_MAX_MESSAGE = 600

_TOOLS: Mapping[str, Callable[[SandboxToolCall], Awaitable[SandboxToolResult]]] = {
    "shell": shell,
    "read_file": read_file,
    "write_file": write_file,
    "glob": glob,
    "browse": browse,
    "sandbox_create": sandbox_create,
    "sandbox_list": sandbox_list,
    "transfer": transfer,
}


async def handle_tool_call(pool: SandboxPool, name: str, input: object) -> SandboxToolResult:  # noqa: A002 (the document's word)
    """Run the tool call of a model. ``input`` is what the model wrote; it is not checked yet.

    An error of the model, the box or the machine is not raised. In this case the result has an
    `ErrorCode`. If this function is cancelled, a running command and all its descendants are
    killed.
    """
    call = SandboxToolCall(pool, ToolInput({}, frozenset()))
    try:
        call.input = read_input(name, input)
        return await _TOOLS[name](call)
    except SandboxToolError as error:
        return failure(error, call.news)
    except SandboxError as error:
        return failure(_error_for_model(error), call.news)
    except Exception:  # noqa: BLE001 (the model must get a result; the log has the traceback)
        _log.exception("the tool %s failed", name)
        return failure(
            SandboxToolError(
                ErrorCode.SANDBOX_FAILED, "the tool failed; the operator finds why in the log"
            ),
            call.news,
        )


def _error_for_model(error: SandboxError) -> SandboxToolError:
    """Make the error that the model gets. Messages about the machine are logged for the operator;
    the model does not get them."""
    match error:
        case BoxFileError():
            return SandboxToolError(_file_code(error.code), str(error)[:_MAX_MESSAGE])
        case ImageUnavailable():
            there = ", ".join(error.available) or "none"
            return SandboxToolError(
                ErrorCode.IMAGE_UNAVAILABLE,
                f"there is no image {error.image[:100]!r} here; there is: {there}"[:_MAX_MESSAGE],
            )
        case ImageMismatch():
            return SandboxToolError(ErrorCode.IMAGE_MISMATCH, str(error))
        case TooManyBoxes():
            return SandboxToolError(ErrorCode.LIMIT, str(error)[:_MAX_MESSAGE])
        case StoredBoxUnreadable():
            return SandboxToolError(ErrorCode.SANDBOX_FAILED, str(error))
        case BoxLost():
            return SandboxToolError(
                ErrorCode.SANDBOX_FAILED,
                "the sandbox died during this call: its processes are gone, its files are as they "
                "were last saved; the next call starts it again",
            )
        case BoxesFull():
            return SandboxToolError(ErrorCode.LIMIT, str(error)[:_MAX_MESSAGE])
        case BackendUnavailable():
            _log.error("no sandbox can be made: %s", error)
            return SandboxToolError(
                ErrorCode.SANDBOX_FAILED,
                "no sandbox can be started on this machine; the operator finds why with "
                "nekro doctor",
            )
    _log.error("a sandbox failed: %s", error)
    return SandboxToolError(
        ErrorCode.SANDBOX_FAILED, "the sandbox failed; the operator finds why in the log"
    )


def _file_code(code: str) -> ErrorCode:
    """Return the `ErrorCode` whose value is ``code``. The box sent this value and is not trusted,
    so an unknown value becomes ``sandbox_failed``."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.SANDBOX_FAILED
