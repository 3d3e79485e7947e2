"""Makes fake boxes in memory, for tests in virtual time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from nekro_core.sandbox.box import BackendUnavailable, BoxLost
from nekro_core.sandbox.results import CommandOutput, CommandResult


@dataclass
class Yard:
    """Makes boxes whose commands only wait and then print the image and the number of the box."""

    take_s: float = 0.0
    command_s: float = 0.0
    end_s: float = 0.0
    broken: bool = False
    made: int = 0
    alive: int = 0
    busy: Counter[str] = field(default_factory=Counter)
    most_busy: Counter[str] = field(default_factory=Counter)

    async def take(self, image: str = "") -> Any:
        await anyio.sleep(self.take_s)
        if self.broken:
            raise BackendUnavailable("nothing works here")
        self.made += 1
        self.alive += 1
        return MemoryBox(self, image, self.made)


class MemoryBox:
    """A box in memory with the methods of `Box` that cells use."""

    def __init__(self, yard: Yard, image: str, number: int) -> None:
        self.box_id = str(number)
        self.alive = True
        self.image = image
        self._yard = yard
        self._files: dict[str, bytes] = {}

    async def execute(self, command: str | Sequence[str], **_: Any) -> CommandResult:
        busy, name = self._yard.busy, str(command).split()[0]
        busy[name] += 1
        self._yard.most_busy[name] = max(self._yard.most_busy[name], busy[name])
        try:
            await anyio.sleep(self._yard.command_s)
        finally:
            busy[name] -= 1
        if not self.alive:
            raise BoxLost("it was destroyed")
        said = f"{command} on {self.image} in {self.box_id}".encode()
        return CommandResult(exit_code=0, stdout=CommandOutput(head=said, size=len(said)))

    async def destroy(self) -> None:
        if self.alive:
            self.alive = False
            self._yard.alive -= 1
        await anyio.sleep(self._yard.end_s)
