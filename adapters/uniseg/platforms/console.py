"""Connects the terminal in which the bot was started: a chat with one person, to try the bot."""

import sys

from nonebot.adapters import Event as BaseEvent
from nonebot.adapters.console import Adapter
from nonebot.adapters.console.event import Event, MessageEvent
from nonebot.drivers import Driver

from nekro_core.api.adapter import Capabilities, Host
from nekro_core.api.chat import File, Image, Sender, Text, Video, Voice

from ..adapter import UnisegAdapter
from ..platform import Platform


class Console(Platform):
    """The terminal. Only text can be sent. If a file is sent, the text is the file's path."""

    name = "console"
    title = "Console"
    stock = Adapter
    capabilities = Capabilities(
        inline=frozenset({Text}),
        alone=frozenset({Image, Voice, Video, File}),
        text_length=10_000,
    )
    nearest = dict.fromkeys((Image, Voice, Video, File), Text)

    def is_message(self, event: BaseEvent) -> bool:
        """Return True if the event is a text that a person typed."""
        return isinstance(event, MessageEvent)

    def sender(self, event: BaseEvent) -> Sender:
        """Return the person with their nickname."""
        assert isinstance(event, Event)
        return Sender(event.user.id, event.user.nickname)

    def time(self, event: BaseEvent) -> float | None:
        """Return the time at which the terminal received the text."""
        return event.time.timestamp() if isinstance(event, Event) else None


def create(host: Host, driver: Driver) -> UnisegAdapter:
    """Make the adapter. Raises `RuntimeError` if there is no terminal, and `ValueError` if the
    settings are invalid."""
    headless = host.settings.get("console_headless_mode")
    if not headless and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RuntimeError("NEKRO_PLATFORMS has console, and the bot runs in no terminal")
    return UnisegAdapter(host, driver, Console())
