"""Makes the `Operator` when somebody first uses it.

Its areas are 60 modules, whose import takes 0.1 to 0.2 s and 4 MiB. A bot needs them only for the
console, for the HTTP API of operators, and for chat commands that change something.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from nekro_core.operator.operator import Operator


class LateOperator:
    """An `Operator` that is made at its first use.

    Args:
        make: Makes the operator, in the event loop. It is called until it has made one.
        imports: Imports the modules that ``make`` needs. It is called in a thread. By default,
            ``make`` needs no further module.
    """

    def __init__(
        self, make: "Callable[[], Operator]", imports: Callable[[], object] = lambda: None
    ) -> None:
        self._make = make
        self._imports = imports
        self._made: Operator | None = None
        self._importing = anyio.CapacityLimiter(1)
        """A thread of its own: ``/stop`` must not wait until other work has left a thread."""

    @property
    def now(self) -> "Operator":
        """The operator. The first use imports the areas, and the event loop waits for it."""
        if self._made is None:
            self._made = self._make()
        return self._made

    async def get(self) -> "Operator":
        """Get the operator. The first call imports the areas in a thread, so that the bot can
        answer chats meanwhile.

        Returns:
            The operator.
        """
        if self._made is None:
            await anyio.to_thread.run_sync(self._imports, limiter=self._importing)
        return self.now
