"""The bot that a name of nekro-agent means.

Names at module level (``config``, ``message_service``, ``DBChatMessage``) are the same objects for
every bot of a process. Which bot they mean is decided when they are used: the bot whose plugin's
code runs, else the one that was opened last.
"""

import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loguru import logger

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import ChatKey
from nekro_core.llm.settings import LLMSettings
from nekro_core.plugins.authoring.binding import effective_binding
from nekro_core.plugins.authoring.services import Services
from nekro_core.plugins.host.listing import PluginInfo
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.policy.permissions import CommandSettings
from nekro_core.policy.settings import TriggerSettings
from nekro_core.store import Store
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.errors import NekroError

_open: list["NekroAgentHost"] = []
"""The bots of this process whose `use_host` is open, for code outside of any plugin's call."""


class NoBot(NekroError, RuntimeError):
    """A name that means the running bot was used, and no bot runs."""


Facts = dict[str, Any]


class FactsFile:
    """Facts by key, in memory and in one JSON file. Each change rewrites the file, so it is meant
    for some hundreds of keys."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._facts: dict[str, Facts] | None = None

    def get(self, key: str) -> Facts:
        """The facts under a key; empty if there are none."""
        return dict(self._read().get(key, {}))

    def all(self) -> dict[str, Facts]:
        """The facts under every key."""
        return {key: dict(facts) for key, facts in self._read().items()}

    def put(self, key: str, facts: Facts) -> None:
        """Replace the facts under a key. Raises `OSError`, and `TypeError` for values that JSON
        cannot hold."""
        self._write({**self._read(), key: facts})

    def drop(self, key: str) -> None:
        """Delete the facts under a key."""
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
            os.replace(self._path, aside)  # noqa: PTH105 - said plainly
            logger.error("{}: no JSON ({}); it is kept as {}", self._path, error, aside.name)
            return {}
        return {key: facts for key, facts in data.items() if isinstance(facts, dict)}

    def _write(self, facts: dict[str, Facts]) -> None:
        text = json.dumps(facts, ensure_ascii=False, indent=1)
        write_whole(self._path, text.encode())
        self._facts = facts


@dataclass(eq=False, kw_only=True)
class NekroAgentHost:
    """One bot. ``adapters`` are the running adapters, by name. ``reset`` starts a chat over.
    ``run_seconds`` is the time limit of a run of code.

    What plugins store about users, chats and presets, and what has no table, is in three JSON files
    in the data folder. The host is among the extensions of the bot's `Services`.
    """

    store: Store
    llm: LLMSettings
    agent: AgentSettings
    trigger: TriggerSettings
    command: CommandSettings
    adapters: Mapping[str, Any]
    data_dir: Path
    run_seconds: float = 60.0
    plugins: PluginRegistry | None = None
    reset: Callable[[ChatKey], Awaitable[object]] | None = None

    def __post_init__(self) -> None:
        folder = self.data_dir / "existing_plugins"
        self.extra_users = FactsFile(folder / "users.json")
        self.extra_chats = FactsFile(folder / "chats.json")
        self.presets = FactsFile(folder / "presets.json")

    @property
    def reach(self) -> Services:
        """The services of the bot. Raises `NoBot` before the bot has loaded its plugins."""
        binding = effective_binding()
        if binding is not None and binding.services is not None:
            return binding.services
        if self.plugins is None:
            raise NoBot("the bot is not up yet: use this in a function that the bot calls")
        return self.plugins.services

    def listed(self) -> tuple[PluginInfo, ...]:
        """All plugins, loaded or not."""
        return self.plugins.plugins() if self.plugins else ()

    def adapter_of(self, chat_key: ChatKey) -> str:
        """The adapter of a chat."""
        return self.reach.adapter_of(chat_key.instance)


@contextmanager
def use_host(host: NekroAgentHost) -> Iterator[NekroAgentHost]:
    """Let names at module level mean this bot while the block is open."""
    _open.append(host)
    try:
        yield host
    finally:
        _open.remove(host)


def current_host() -> NekroAgentHost:
    """The bot that module-level names mean in this call. Raises `NoBot`."""
    binding = effective_binding()
    services = binding.services if binding is not None else None
    if services is not None and (host := services.extension(NekroAgentHost)) is not None:
        return host
    if not _open:
        raise NoBot("no bot runs here: use this in a function that the bot calls")
    return _open[-1]
