"""Declarations of a plugin: hooks, tools that it chooses by the chat, types of tasks and web
routes; and the signals that a hook returns."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol, TypeVar

from nekro_core.chat import ChatMessage
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.tasks import TaskType
from nekro_core.plugins.authoring.web import PluginRouter, Webhook
from nekro_core.tools.tool import ToolKind, Visibility


class SupportsDeclare(Protocol):
    """What a declaration is registered with (`NekroPlugin`)."""

    def declare(self, value: object) -> None:
        """See `NekroPlugin.declare`."""


SandboxMethodType = ToolKind
"""The kinds under the name that plugin authors know."""


@dataclass(frozen=True, slots=True)
class SandboxMethod:
    """A function that the AI may call, as its plugin registered it.

    Attributes:
        method_type: What its result does to the turn.
        name: How the AI calls it, where it is an identifier.
        description: What the AI is told of it.
        func: The function.
        needs_chat: Whether it sends or reads anything of the chat.
        visibility: Whether the prompt shows it.
    """

    method_type: SandboxMethodType
    name: str
    description: str
    func: Callable[..., Awaitable[Any]]
    needs_chat: bool = True
    visibility: Visibility = Visibility.VISIBLE


class MsgSignal(IntEnum):
    """What a message hook returns. Existing plugins write the numbers."""

    FORCE_TRIGGER = -1
    """The bot answers, whatever its triggers say."""
    CONTINUE = 0
    """The plugin has no opinion."""
    BLOCK_TRIGGER = 1
    """The message is stored but does not wake the agent."""
    BLOCK_ALL = 2
    """The message is not shown to the model at all."""

    @classmethod
    def of(cls, answer: object) -> "MsgSignal":
        """Read what a hook returned.

        Args:
            answer: A signal, its number as older plugins write it, or None for no opinion.

        Returns:
            The signal.

        Raises:
            ValueError: It is anything else.
        """
        if answer is None:
            return cls.CONTINUE
        if isinstance(answer, int) and not isinstance(answer, bool) and answer in {*cls}:
            return cls(answer)
        raise ValueError(
            f"expected a MsgSignal or None, got {type(answer).__name__} {answer!r:.60}"
        )

    @classmethod
    def merged(cls, signals: Iterable["MsgSignal"]) -> "MsgSignal":
        """Make one signal out of many.

        Args:
            signals: The answers of several hooks; none is `CONTINUE`.

        Returns:
            ``BLOCK_ALL`` where there is one, else ``FORCE_TRIGGER``, else ``BLOCK_TRIGGER``, else
            ``CONTINUE``.
        """
        given = set(signals)
        for signal in (cls.BLOCK_ALL, cls.FORCE_TRIGGER, cls.BLOCK_TRIGGER):
            if signal in given:
                return signal
        return cls.CONTINUE


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
    """The hooks that `NekroPlugin`'s decorators set. For a hook of which there is one, the last
    function counts.

    Every hook has a time limit. A hook that fails or is late counts as one without an answer
    (`nekro_core.plugins.host.hooks`).
    """

    def __init__(self) -> None:
        self.prompt_inject_method: PromptMethod | None = None
        self.init_method: Lifecycle | None = None
        self.cleanup_method: Lifecycle | None = None
        self.on_user_message_method: MessageMethod | None = None
        self.wants_chat_message = False
        """Whether the message hook's second parameter is annotated `nekro_core.chat.ChatMessage`.
        Any other hook gets the form that plugins of other hosts know, where the bot has one."""
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
        """``async ()``: awaited when the plugin is enabled, after its init method. Any number.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.enabled_methods.append(function)
            return function

        return mount

    def on_disabled(self) -> Callable[[Function], Function]:
        """``async ()``: awaited when the plugin is disabled, before its cleanup method. Any number.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.disabled_methods.append(function)
            return function

        return mount

    def mount_on_user_message(self) -> Callable[[Function], Function]:
        """``async (ctx, message: ChatMessage) -> MsgSignal | None``: asked before a message can
        trigger. One.

        The annotation `nekro_core.api.chat.ChatMessage` says that the hook takes that class. A hook
        without it gets the message in the form of `nekro_core.api.message.ChatMessage`.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.on_user_message_method = function
            self.wants_chat_message = _second_annotation(function) is ChatMessage
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
        """``async (ctx)``: the chat's conversation is reset; delete what belongs to the old one.
        One.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.on_channel_reset_method = function
            return function

        return mount

    def mount_on_user_erase(self) -> Callable[[Function], Function]:
        """``async (ctx, adapter_key, user_id) -> int | None``: a person is to be erased. Delete
        what the plugin's own files have of the person, and return how many things were deleted. The
        bot itself looks through ``plugin.store`` and the vectors. One.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.on_user_erase_method = function
            return function

        return mount

    def mount_collect_methods(self) -> Callable[[Function], Function]:
        """``async (ctx) -> list``: the functions that the plugin offers in this chat, instead of
        all mounted ones. The list has functions, or `SandboxMethod` for one that is not mounted. If
        the hook fails or is late, the plugin offers nothing. One.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.collect_method = function
            return function

        return mount


def _second_annotation(function: Callable[..., Any]) -> Any:
    """The class that annotates a function's second parameter; None where nothing tells it."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return None
    annotation = parameters[1].annotation if len(parameters) > 1 else None
    if not isinstance(annotation, str):
        return annotation
    # Written under ``from __future__ import annotations``, or in quotation marks.
    first, *rest = annotation.strip("'\"").split(".")
    named = getattr(inspect.unwrap(function), "__globals__", {}).get(first)
    for each in rest:
        named = getattr(named, each, None)
    return named


def mount_async_task(plugin: SupportsDeclare, task_type: str) -> Callable[[Function], Function]:
    """Let ``task.start(task_type, ...)`` run an ``async def f(handle, ...)`` that yields
    `TaskCtl`: an async generator. ``handle`` is its `AsyncTaskHandle`.

    Args:
        plugin: The plugin; given by the call as a method.
        task_type: The name to start it by.

    Returns:
        A decorator that gives the function back.
    """

    def mount(function: Function) -> Function:
        plugin.declare(TaskType(task_type, function))
        return function

    return mount


def mount_router(plugin: SupportsDeclare) -> Callable[[Function], Function]:
    """``() -> fastapi.APIRouter``: the routes that the plugin answers below ``/plugins/{key}``,
    behind the page's login. Called once the plugin is enabled. The routes are gone when it is
    disabled.

    Args:
        plugin: The plugin; given by the call as a method.

    Returns:
        A decorator that gives the function back.
    """

    def mount(function: Function) -> Function:
        plugin.declare(PluginRouter(function))
        return function

    return mount


def mount_webhook_method(
    plugin: SupportsDeclare, endpoint: str, name: str = "", description: str = ""
) -> Callable[[Function], Function]:
    """``async (ctx)``: called for a POST to ``/api/webhook/{endpoint}/{secret}``.

    The bot makes the secret, and it stays the same over restarts; ``nekro plugin list`` shows the
    whole address. ``ctx.webhook_request`` is the `WebhookRequest`. The call belongs to no chat, so
    each message that is sent must name one. A dict or list that is returned becomes the answer.

    Args:
        plugin: The plugin; given by the call as a method.
        endpoint: The part of the address that the author chooses.
        name: The name for people; empty for ``endpoint``.
        description: What it is for.

    Returns:
        A decorator that gives the function back.
    """

    def mount(function: Function) -> Function:
        plugin.declare(
            Webhook(
                endpoint=endpoint,
                name=name or endpoint,
                description=description,
                handler=function,
            )
        )
        return function

    return mount
