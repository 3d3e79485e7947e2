"""Defines the objects that the tools use: the boxes of one owner, the limits of a call, and the
call itself."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from nekro_core.sandbox.box import Box, BoxLost
from nekro_core.sandbox.named import BoxLease, OwnerBoxes, UseEffect
from nekro_core.sandbox.named.storage import NAME
from nekro_core.sandbox.preview.registry import PreviewTarget
from nekro_core.sandbox.tools.inputs import ToolInput, invalid
from nekro_core.sandbox.tools.result import ErrorCode, SandboxToolError

_Result = TypeVar("_Result")


class PreviewOpener(Protocol):
    """Opens previews of servers in boxes (`nekro_core.sandbox.preview.PreviewRegistry`)."""

    def open(self, target: PreviewTarget, port: int) -> str:
        """Return the address of a preview of this port of this box. Raises `PreviewRefused`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxToolLimits:
    """Limits of one call. Results are limited because the model's provider charges for every
    byte."""

    command_s: float = 600.0
    """Largest timeout of a command that a model may set, in seconds."""
    output_bytes: int = 16 * 1024
    """The largest number of bytes of stdout in a result, and also of stderr. A file in the box has
    the full output."""
    read_bytes: int = 256 * 1024
    """The largest number of bytes of a file that one call reads."""
    write_bytes: int = 8 * 1024 * 1024
    paths: int = 1000
    """The largest number of paths in the result of ``glob``."""
    paths_bytes: int = 32 * 1024
    sleep_after_s: float = 7 * 86_400.0
    """Largest ``sleep_after_ms`` that a model may set, in seconds."""


class SandboxPool:
    """The named boxes of one owner, for the tools.

    ``preview`` opens previews of servers in the boxes. Without it, ``browse`` returns an error.
    """

    def __init__(
        self,
        boxes: OwnerBoxes,
        *,
        preview: PreviewOpener | None = None,
        limits: SandboxToolLimits | None = None,
    ) -> None:
        self.boxes = boxes
        self.preview = preview
        self.limits = limits or SandboxToolLimits()


class SandboxToolCall:
    """One running call: its input, and the notices of the boxes that it uses (see
    `NamedBox.pop_notices`), which are added to its result."""

    def __init__(self, pool: SandboxPool, given: ToolInput) -> None:
        self.pool = pool
        self.limits = pool.limits
        self.input = given
        self.news: dict[str, object] = {}

    async def run_in_box(
        self, effect: UseEffect, operation: Callable[[Box], Awaitable[_Result]]
    ) -> _Result:
        """Run ``operation`` in the box that the input names.

        The box may be lost before or during the operation. If the operation cannot have changed
        anything, the box is started again and the operation runs once more. This is so if the
        operation had not begun, or if ``effect`` is ``NOTHING``. Raises the errors of the
        operation.
        """
        for is_last in (False, True):
            began = False
            try:
                async with self.use("sandbox", effect) as used:
                    began = used.box.alive
                    return await operation(used.box)
            except BoxLost:
                if is_last or (began and effect is not UseEffect.NOTHING):
                    raise
        raise AssertionError("the second attempt returns or raises")

    @asynccontextmanager
    async def use(self, parameter: str, effect: UseEffect) -> AsyncGenerator[BoxLease]:
        """Use the running box whose name is the value of ``parameter``. ``effect`` is what the use
        may change in the box. Raises `SandboxToolError` if the value is not a valid name."""
        async with self.pool.boxes.use(self.name(parameter), effect) as used:
            self.news |= used.named.pop_notices()
            yield used

    def name(self, parameter: str) -> str:
        """Return the value of ``parameter``, the name of a box. Raises `SandboxToolError` if it is
        not a valid name."""
        name = self.input.text(parameter)
        if not NAME.fullmatch(name):
            raise invalid(
                f"{parameter}: {name[:80]!r} is no name: expected 1 to 64 letters, digits and "
                "._- beginning with a letter or a digit"
            )
        return name


def refused(message: str) -> SandboxToolError:
    """Make the error for a call that would go beyond a limit."""
    return SandboxToolError(ErrorCode.LIMIT, message)
