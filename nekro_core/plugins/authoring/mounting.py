"""The functions that a plugin hangs on itself: its life, its hooks, and tools by the chat."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.methods import SandboxMethod
from nekro_core.plugins.authoring.signal import MsgSignal

Function = TypeVar("Function", bound=Callable[..., Any])
Lifecycle = Callable[[], Awaitable[None]]
PromptMethod = Callable[[AgentCtx], Awaitable[str]]
MessageMethod = Callable[[AgentCtx, Any], Awaitable[MsgSignal | None]]
SystemMethod = Callable[[AgentCtx, str], Awaitable[MsgSignal | None]]
ResetMethod = Callable[[AgentCtx], Awaitable[None]]
EraseMethod = Callable[[AgentCtx, str, str], Awaitable[int | None]]
Collected = Sequence[Callable[..., Any] | SandboxMethod]
CollectMethod = Callable[[AgentCtx], Awaitable[Collected]]


class Mounting:
    """What `NekroPlugin` is told by its decorators. Where one function is taken, the last counts.

    Every function is bounded in time, and one that fails has no say
    (`nekro_core.plugins.host.hooks`).
    """

    def __init__(self) -> None:
        self.prompt_inject_method: PromptMethod | None = None
        self.init_method: Lifecycle | None = None
        self.cleanup_method: Lifecycle | None = None
        self.on_user_message_method: MessageMethod | None = None
        self.on_system_message_method: SystemMethod | None = None
        self.on_channel_reset_method: ResetMethod | None = None
        self.on_user_erase_method: EraseMethod | None = None
        self.collect_method: CollectMethod | None = None
        self.enabled_methods: list[Lifecycle] = []
        self.disabled_methods: list[Lifecycle] = []

    def mount_prompt_inject_method(
        self, name: str, description: str = ""
    ) -> Callable[[Function], Function]:
        """``async (ctx) -> str``: what the plugin adds to every prompt. One.

        Args:
            name: Has no effect; existing plugins give it.
            description: Has no effect; existing plugins give it.

        Returns:
            A decorator that gives the function back.
        """
        del name, description  # what existing plugins give; the list shows the function's own

        def mount(function: Function) -> Function:
            self.prompt_inject_method = function
            return function

        return mount

    def mount_init_method(self) -> Callable[[Function], Function]:
        """``async ()``: awaited when the plugin is enabled, before its tools are offered. One.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.init_method = function
            return function

        return mount

    def mount_cleanup_method(self) -> Callable[[Function], Function]:
        """``async ()``: awaited when the plugin is disabled and when the bot ends. One.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.cleanup_method = function
            return function

        return mount

    def on_enabled(self) -> Callable[[Function], Function]:
        """``async ()``: awaited when the plugin is in force, after its init method. Any number.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.enabled_methods.append(function)
            return function

        return mount

    def on_disabled(self) -> Callable[[Function], Function]:
        """``async ()``: awaited when the plugin goes, before its cleanup method. Any number.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.disabled_methods.append(function)
            return function

        return mount

    def mount_on_user_message(self) -> Callable[[Function], Function]:
        """``async (ctx, message) -> MsgSignal | None``: asked before a message can trigger. One.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.on_user_message_method = function
            return function

        return mount

    def mount_on_system_message(self) -> Callable[[Function], Function]:
        """``async (ctx, text) -> MsgSignal | None``: asked before a system line comes into a chat's
        record. ``BLOCK_ALL`` keeps it out, ``BLOCK_TRIGGER`` lets it wake nobody, ``FORCE_TRIGGER``
        has the agent answer it. Lines that a hook itself adds are not asked about. One.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.on_system_message_method = function
            return function

        return mount

    def mount_on_channel_reset(self) -> Callable[[Function], Function]:
        """``async (ctx)``: the chat begins anew; forget what belongs to its past. One.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.on_channel_reset_method = function
            return function

        return mount

    def mount_on_user_erase(self) -> Callable[[Function], Function]:
        """``async (ctx, adapter_key, user_id) -> int | None``: a person is to be forgotten. Delete
        what the plugin's own files have of them, and say how many things went; ``plugin.store`` and
        the vectors are looked through by the bot. One.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.on_user_erase_method = function
            return function

        return mount

    def mount_collect_methods(self) -> Callable[[Function], Function]:
        """``async (ctx) -> list``: which of its functions the plugin offers in this chat, instead
        of all that are mounted; functions, or `SandboxMethod` for one that is not mounted. Where it
        fails or is late, none is offered. One.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.collect_method = function
            return function

        return mount
