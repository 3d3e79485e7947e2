"""The plugins of one bot: loaded, listed, enabled, disabled, and asked for what they add."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from nekro_core.chat import ChatKey, ChatMessage
from nekro_core.plugin.context import AgentCtx
from nekro_core.plugin.services import BoxFiles, Services
from nekro_core.plugin.settings import PluginSettings
from nekro_core.plugin.signal import MsgSignal
from nekro_core.tools.names import ToolSet
from nekro_core.tools.problem import Problem
from nekro_core.tools.tool import Tool


class PluginState(StrEnum):
    """Where a plugin stands."""

    LOADED = "loaded"
    DISABLED = "disabled"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """One line of the list. ``item`` is where it was found, ``builtin/chat`` or ``local/weather``;
    ``key`` and the rest are known once it was loaded."""

    item: str
    state: PluginState
    key: str = ""
    name: str = ""
    version: str = ""
    author: str = ""
    description: str = ""
    tools: tuple[Tool, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptInjection:
    """What a plugin adds to the prompt. ``plugin`` is its key."""

    plugin: str
    text: str


class PluginRegistry:
    """See the module."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, services: Services, settings: PluginSettings, *, folders: dict[str, Path] | None = None
    ) -> AsyncIterator[Self]:
        """Load every plugin that is not disabled; leaving unloads them. Raises for no plugin."""
        raise NotImplementedError
        yield

    def plugins(self) -> tuple[PluginInfo, ...]:
        """Every plugin that was found."""
        raise NotImplementedError

    async def enable(self, plugin: str) -> PluginInfo:
        """Load a plugin by key or item, and remember that it is wanted."""
        raise NotImplementedError

    async def disable(self, plugin: str) -> PluginInfo:
        """Unload a plugin, and remember that it is not wanted."""
        raise NotImplementedError

    def tools_for(self, chat_key: ChatKey) -> ToolSet:
        """The tools that code of this chat may call."""
        raise NotImplementedError

    def context_for(
        self,
        chat_key: ChatKey,
        *,
        user_id: str = "",
        user_name: str = "",
        message_id: str = "",
        run_id: str = "",
        box: BoxFiles | None = None,
    ) -> AgentCtx:
        """The context of one run."""
        raise NotImplementedError

    async def prompt_injections(self, ctx: AgentCtx) -> tuple[PromptInjection, ...]:
        """What plugins add to the prompt; who is late or fails adds nothing."""
        raise NotImplementedError

    async def on_user_message(self, ctx: AgentCtx, message: ChatMessage) -> MsgSignal:
        """Ask the message hooks."""
        raise NotImplementedError
