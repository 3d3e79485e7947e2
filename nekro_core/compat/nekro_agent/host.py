"""Finds the bot to which a call through a name of nekro-agent belongs.

Names at module level (``config``, ``message_service``, ``DBChatMessage``) are the same objects for
all bots of a process. The bot is chosen at each use: it is the bot whose plugin is running, or the
bot that was opened last if no plugin is running.
"""

import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loguru import logger

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import ChatKey
from nekro_core.compat.nekro_agent.callback_timers import CallbackTimer
from nekro_core.compat.nekro_agent.plugin_run import CodeRunner
from nekro_core.llm.settings import LLMSettings
from nekro_core.plugins.authoring.binding import effective_binding
from nekro_core.plugins.authoring.services import Services
from nekro_core.plugins.host.listing import PluginInfo
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.policy.permissions import CommandSettings
from nekro_core.policy.settings import TriggerSettings
from nekro_core.store import Store
from nekro_core.store.queries import WhereClause
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.errors import NekroError

_open: list["NekroAgentHost"] = []
"""The bots of this process whose `use_host` block is open. Code that does not run in a call of a
plugin uses the last of these bots."""


class NoBot(NekroError, RuntimeError):
    """A plugin used a name that needs a running bot, but no bot runs."""


Facts = dict[str, Any]


class FactsFile:
    """Stores a dict of facts for each key, in memory and in one JSON file. Each change rewrites the
    whole file, so use this class for a few hundred keys at most. A file that is not JSON is renamed
    to ``NAME.unreadable.json``, and there are no facts then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._facts: dict[str, Facts] | None = None

    def get(self, key: str) -> Facts:
        """The facts of a key; empty if the key does not exist."""
        return dict(self._read().get(key, {}))

    def all(self) -> dict[str, Facts]:
        """The facts of all keys."""
        return {key: dict(facts) for key, facts in self._read().items()}

    def put(self, key: str, facts: Facts) -> None:
        """Replace the facts of a key. Raises `OSError`, and `TypeError` for values that cannot be
        written as JSON."""
        self._write({**self._read(), key: facts})

    def drop(self, key: str) -> None:
        """Delete a key and its facts."""
        self._write({each: facts for each, facts in self._read().items() if each != key})

    def _read(self) -> dict[str, Facts]:
        if self._facts is None:
            self._facts = self._load()
        return self._facts

    def _load(self) -> dict[str, Facts]:
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            aside = self._path.with_suffix(".unreadable.json")
            os.replace(self._path, aside)  # noqa: PTH105 - replaces an older copy
            logger.error("{}: no JSON ({}); it was renamed to {}", self._path, error, aside.name)
            return {}
        return {key: facts for key, facts in data.items() if isinstance(facts, dict)}

    def _write(self, facts: dict[str, Facts]) -> None:
        text = json.dumps(facts, ensure_ascii=False, indent=1)
        write_whole(self._path, text.encode())
        self._facts = facts


@dataclass(eq=False, kw_only=True)
class NekroAgentHost:
    """The parts of one bot that the names of nekro-agent use. ``adapters`` has the running adapters
    by name. ``reset`` hides a chat's earlier messages from the model. ``run_seconds`` is the time
    limit of a run of code, and ``code_runner`` runs code. ``wall`` returns seconds since 1970.

    Plugins may store facts about users, chats and presets. Facts that have no column in the
    database are in three JSON files in the data folder. The bot's `Services` have this object as an
    extension.
    """

    store: Store
    llm: LLMSettings
    agent: AgentSettings
    trigger: TriggerSettings
    command: CommandSettings
    adapters: Mapping[str, Any]
    data_dir: Path
    wall: Callable[[], float] = time.time
    run_seconds: float = 60.0
    plugins: PluginRegistry | None = None
    reset: Callable[[ChatKey], Awaitable[object]] | None = None
    code_runner: CodeRunner | None = None

    def __post_init__(self) -> None:
        folder = self.data_dir / "existing_plugins"
        self.extra_users = FactsFile(folder / "users.json")
        self.extra_chats = FactsFile(folder / "chats.json")
        self.presets = FactsFile(folder / "presets.json")
        self._first_seen: dict[str, float] = {}
        self.callback_timers: dict[str, CallbackTimer] = {}

    async def load(self) -> None:
        """Read the times at which the chats were first seen. Call this before plugins are
        loaded."""
        rows = await self.store.queries.select("chats", WhereClause())
        self._first_seen |= {row["chat_key"]: row["first_seen"] for row in rows}

    def first_seen(self, chat_key: ChatKey) -> float:
        """The time at which the chat was first seen, in seconds since 1970. If the chat is new
        since the start of the bot, this is the time of the first call of this method."""
        return self._first_seen.setdefault(str(chat_key), self.wall())

    @property
    def reach(self) -> Services:
        """The bot's services. Raises `NoBot` before the bot has loaded its plugins."""
        binding = effective_binding()
        if binding is not None and binding.services is not None:
            return binding.services
        if self.plugins is None:
            raise NoBot("the bot has not started yet: use this in a function that the bot calls")
        return self.plugins.services

    def listed(self) -> tuple[PluginInfo, ...]:
        """All plugins, loaded or not."""
        return self.plugins.plugins() if self.plugins else ()

    def adapter_of(self, chat_key: ChatKey) -> str:
        """The name of a chat's adapter."""
        return self.reach.adapter_of(chat_key.instance)


@contextmanager
def use_host(host: NekroAgentHost) -> Iterator[NekroAgentHost]:
    """Use this bot for names at module level while the block is open."""
    _open.append(host)
    try:
        yield host
    finally:
        _open.remove(host)


def current_host() -> NekroAgentHost:
    """The bot to which the current call belongs. Raises `NoBot` if no bot runs."""
    binding = effective_binding()
    services = binding.services if binding is not None else None
    if services is not None and (host := services.extension(NekroAgentHost)) is not None:
        return host
    if not _open:
        raise NoBot("no bot runs here: use this in a function that the bot calls")
    return _open[-1]
