"""A shell in a box that stays: what one command leaves, the next one finds."""

from typing import Any

from nekro_core.api.reactive import ExecResult, SandboxHandle, Signal, cell, sandbox, scope


class Shell:
    """Made in a scope. Another ``image`` is another box, and an empty history."""

    def __init__(self, image: Any = None) -> None:
        self.box: SandboxHandle = sandbox(image)
        self.history: Signal[tuple[ExecResult, ...]] = cell(())

    async def run(self, command: str) -> ExecResult:
        """Run a command; what came of it, once that is known. Raises what the box raised."""
        # The cell is needed no longer than its result, so it has a scope of its own.
        with scope():
            state = await self.box.exec(command).settled()
        if state.error is not None:
            raise state.error
        result = state.result
        if result is None:
            raise ValueError("an empty line is no command")
        self.history.update(lambda before: (*before, result))
        return result
