"""Simulates a chat in which people type commands. The plugins and the command router are real; the
platform is in memory."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from nekro_core.chat import Author, ChatKey, Record, Segment, Sender, Text, plain_text
from nekro_core.chat.catalogue import Catalogue
from nekro_core.plugins.authoring.commands import Command, CommandFamily
from nekro_core.plugins.commands.book import CommandRegistry
from nekro_core.plugins.commands.pending_questions import QuestionStore
from nekro_core.plugins.commands.router import CommandRouter
from nekro_core.plugins.host.kinds import NO_REGISTRARS, Registrars
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.policy.permissions import CommandSettings
from tests.plugins.world import GROUP, World

PRELUDE = """
from typing import Annotated, Literal
import anyio
from nekro_core.api.plugin import *
plugin = NekroPlugin(name={name!r}, module_name={name!r}, author="me")
"""


@dataclass
class Talk:
    """The chat, its plugins and its command router."""

    world: World
    plugins: PluginRegistry
    book: CommandRegistry
    router: CommandRouter
    tasks: TaskGroup
    numbers: Any = field(default_factory=count)

    def record(
        self, *parts: str | Segment, by: str = "10001", chat: ChatKey = GROUP, **more: Any
    ) -> Record:
        """A person's message as a record."""
        segments = tuple(Text(part) if isinstance(part, str) else part for part in parts)
        known = {
            "seq": next(self.numbers),
            "chat_key": chat,
            "author": Author.PERSON,
            "segments": segments,
            "time": 0.0,
            "sender": Sender(by, "Lin"),
        }
        return Record(**(known | more))

    def receive(self, *parts: str | Segment, **more: Any) -> bool:
        """Give the router a person's message.

        Returns True if the message is a command or an answer to one. The command may still be
        running.
        """
        return bool(self.router.on_record(self.record(*parts, **more), self.tasks.start_soon))

    async def say(self, *parts: str | Segment, replies: int = 1, **more: Any) -> list[str]:
        """Give the router a person's command, wait for its replies, and return them."""
        before = len(self.texts)
        assert self.receive(*parts, **more), f"{parts} was not recognized as a command"
        with anyio.fail_after(30):
            while len(self.texts) < before + replies:
                await anyio.sleep(0.001)
        return self.texts[before:]

    @property
    def texts(self) -> list[str]:
        """All texts that were sent."""
        return [plain_text(segments).strip() for _, segments, _ in self.world.outgoing.sent]


@asynccontextmanager
async def talk(
    folder: Path,
    *,
    order: tuple[str, ...] = (),
    registrars: Registrars = NO_REGISTRARS,
    keeper: QuestionStore | None = None,
    wall: Callable[[], float] = time.time,
    **plugins: str,
) -> AsyncIterator[Talk]:
    """Open a chat with these plugins. Each value of ``plugins`` is the code that follows the
    `NekroPlugin`."""
    known: dict[str, Any] = {"order": order, "registrars": registrars, "keeper": keeper}
    async with talk_with(CommandSettings(), folder, wall=wall, **known, **plugins) as chat:
        yield chat


@asynccontextmanager
async def talk_with(
    settings: CommandSettings,
    folder: Path,
    *,
    order: tuple[str, ...] = (),
    registrars: Registrars = NO_REGISTRARS,
    keeper: QuestionStore | None = None,
    wall: Callable[[], float] = time.time,
    **plugins: str,
) -> AsyncIterator[Talk]:
    """Open a chat with these plugins and command settings. See `talk`."""
    world = World(folder)
    for name, code in plugins.items():
        world.write(f"{name}.py", PRELUDE.format(name=name) + code)
    book = CommandRegistry(order)
    async with (
        PluginRegistry.open(
            world.services,
            PluginSettings(),
            builtin=folder / "no-builtin",
            registrars={Command: book.put, CommandFamily: book.add_family, **registrars},
        ) as registry,
        anyio.create_task_group() as tasks,
    ):
        router = CommandRouter(
            book,
            settings,
            registry.context_for,
            world.services.adapter_of,
            Catalogue.load(),
            keeper=keeper,
            wall=wall,
        )
        yield Talk(world, registry, book, router, tasks)
        tasks.cancel_scope.cancel()
