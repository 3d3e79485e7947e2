"""What the tests of processes that share the work have in common: a reply that halts in the middle,
and a command that notes its calls."""

from collections.abc import AsyncIterator

import anyio

from nekro_core.plugins.authoring.commands import Command, CommandExecutionContext
from tests.agent.bot import fence

REST = fence("send_channel_message('one')\nsend_channel_message('two')")
"""The reply of the resumed turn. The message that `HaltingReply` has sent is not sent again."""


class HaltingReply:
    """A reply that sends ``one`` and never ends. ``begun`` is set when the model has written the
    line that sends it."""

    def __init__(self) -> None:
        self.begun = anyio.Event()

    async def chunks(self) -> AsyncIterator[str]:
        yield "```python\nsend_channel_message('one')\n"
        self.begun.set()
        await anyio.sleep_forever()


class EchoCommand:
    """The command ``/echo``. ``calls`` has the texts with which it was called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def _echo(self, context: CommandExecutionContext, text: str = "") -> str:
        self.calls.append(text)
        return text

    @property
    def command(self) -> Command:
        return Command(name="echo", handler=self._echo, description="Say it.")
