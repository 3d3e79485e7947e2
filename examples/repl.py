"""A shell in a box that lives on between commands, so a command finds the files of earlier
commands."""

from typing import Any

from nekro_core.api.reactive import ExecResult, SandboxHandle, Signal, cell, sandbox, scope


class Shell:
    """A shell, to be made in a scope. A new ``image`` gives a new box and an empty history."""

    def __init__(self, image: Any = None) -> None:
        self.box: SandboxHandle = sandbox(image)
        self.history: Signal[tuple[ExecResult, ...]] = cell(())

    async def run(self, command: str) -> ExecResult:
        """Run a command and wait for its result. Raises the error of the box."""
        # The cell is needed only until it has its result, so it gets its own scope.
        with scope():
            state = await self.box.exec(command).settled()
        if state.error is not None:
            raise state.error
        result = state.result
        if result is None:
            raise ValueError("an empty line is no command")
        self.history.update(lambda before: (*before, result))
        return result
