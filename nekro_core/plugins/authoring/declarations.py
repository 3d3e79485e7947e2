"""Declarations of a plugin: hooks, sandbox methods, task types and web routes. Also the signals
that a message hook returns."""

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
    """The object that declarations are registered with (`NekroPlugin`)."""

    def declare(self, value: object) -> None:
        """See `NekroPlugin.declare`."""


SandboxMethodType = ToolKind
"""The tool kinds, under the name that plugin authors use."""


@dataclass(frozen=True, slots=True)
class SandboxMethod:
    """A function that the AI may call, as its plugin registered it.

    Attributes:
        method_type: What the function's result does to the turn.
        name: A name of the function for the AI; used only if it is a Python identifier.
        description: What the prompt says about the function.
        func: The function.
        needs_chat: Whether the function sends to the chat or reads from it.
        visibility: Whether the prompt shows the function.
        confirms: Whether the result only confirms what was done.
        examples: The text of more worked examples for small models.
    """

    method_type: SandboxMethodType
    name: str
    description: str
    func: Callable[..., Awaitable[Any]]
    needs_chat: bool = True
    visibility: Visibility = Visibility.VISIBLE
    confirms: bool = False
    examples: str = ""


class MsgSignal(IntEnum):
    """What a message hook returns. Existing plugins return the numbers instead."""

    FORCE_TRIGGER = -1
    """The bot answers the message, even if its trigger would not."""
    CONTINUE = 0
    """The plugin has no opinion."""
    BLOCK_TRIGGER = 1
    """The message is stored, and the agent does not answer it."""
    BLOCK_ALL = 2
    """The message is not shown to the model at all."""

    @classmethod
    def of(cls, answer: object) -> "MsgSignal":
        """Read what a hook returned.

        Args:
            answer: A signal, its number as older plugins return it, or None for no opinion.

        Returns:
            The signal.

        Raises:
            ValueError: The answer is anything else.
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
        """Combine the signals of several hooks into one.

        Args:
            signals: The hooks' signals; may be empty.

        Returns:
            The first of these that is among the signals: ``BLOCK_ALL``, ``FORCE_TRIGGER``,
            ``BLOCK_TRIGGER``; else ``CONTINUE``.
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
    """The decorators of `NekroPlugin` that mount hooks. A plugin may mount several functions with
    `on_enabled` and `on_disabled`. With each other decorator, a second function replaces the first.

    Every hook has a time limit. A hook that fails or exceeds it counts as a hook that returned None
    (`nekro_core.plugins.host.hooks`).
    """

    def __init__(self) -> None:
        self.prompt_inject_method: PromptMethod | None = None
        self.init_method: Lifecycle | None = None
        self.cleanup_method: Lifecycle | None = None
        self.on_user_message_method: MessageMethod | None = None
        self.wants_chat_message = False
        """Whether the message hook's second parameter is annotated with
        `nekro_core.chat.ChatMessage`. Otherwise the hook gets the message in the form that plugins
        of other bots use, if the bot can make that form."""
        self.on_system_message_method: SystemMethod | None = None
        self.on_channel_reset_method: ResetMethod | None = None
        self.on_user_erase_method: EraseMethod | None = None
        self.collect_method: CollectMethod | None = None
        self.enabled_methods: list[Lifecycle] = []
        self.disabled_methods: list[Lifecycle] = []

    def mount_prompt_inject_method(
        self, name: str, description: str = ""
    ) -> Callable[[Function], Function]:
        """Mount ``async (ctx) -> str``: returns a text that is added to every prompt.

        Args:
            name: Has no effect; existing plugins pass it.
            description: Has no effect; existing plugins pass it.

        Returns:
            A decorator that gives the function back.
        """
        del name, description  # accepted for existing plugins; lists show the function's own name

        def mount(function: Function) -> Function:
            self.prompt_inject_method = function
            return function

        return mount

    def mount_init_method(self) -> Callable[[Function], Function]:
        """Mount ``async ()``: runs when the plugin is enabled, before its tools are offered.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.init_method = function
            return function

        return mount

    def mount_cleanup_method(self) -> Callable[[Function], Function]:
        """Mount ``async ()``: runs when the plugin is disabled and when the bot ends.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.cleanup_method = function
            return function

        return mount

    def on_enabled(self) -> Callable[[Function], Function]:
        """Mount ``async ()``: runs when the plugin is enabled, after the init method.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.enabled_methods.append(function)
            return function

        return mount

    def on_disabled(self) -> Callable[[Function], Function]:
        """Mount ``async ()``: runs when the plugin is disabled, before the cleanup method.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.disabled_methods.append(function)
            return function

        return mount

    def mount_on_user_message(self) -> Callable[[Function], Function]:
        """Mount ``async (ctx, message: ChatMessage) -> MsgSignal | None``: runs before the trigger
        decides whether a message is answered.

        If the parameter is annotated with `nekro_core.api.chat.ChatMessage`, the hook gets that
        class. Otherwise it gets a `nekro_core.api.message.ChatMessage`.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.on_user_message_method = function
            self.wants_chat_message = _second_annotation(function) is ChatMessage
            return function

        return mount

    def mount_on_system_message(self) -> Callable[[Function], Function]:
        """Mount ``async (ctx, text) -> MsgSignal | None``: runs before a system line is added to a
        chat's history. ``BLOCK_ALL`` drops the line, ``BLOCK_TRIGGER`` stops the agent from
        answering it, ``FORCE_TRIGGER`` makes the agent answer it. The hook does not run for lines
        that a hook adds.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.on_system_message_method = function
            return function

        return mount

    def mount_on_channel_reset(self) -> Callable[[Function], Function]:
        """Mount ``async (ctx)``: runs when the chat's conversation is reset. It should delete the
        plugin's data about the old conversation.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.on_channel_reset_method = function
            return function

        return mount

    def mount_on_user_erase(self) -> Callable[[Function], Function]:
        """Mount ``async (ctx, adapter_key, user_id) -> int | None``: runs when a person must be
        erased. It should delete the person's data from the plugin's files and return how many
        things it deleted. The bot itself erases the person from ``plugin.store`` and the vectors.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.on_user_erase_method = function
            return function

        return mount

    def mount_collect_methods(self) -> Callable[[Function], Function]:
        """Mount ``async (ctx) -> list``: chooses the functions that the plugin offers to the AI in
        this chat, instead of all mounted ones. The list contains mounted functions, or a
        `SandboxMethod` for a function that is not mounted. If the hook fails or exceeds its time
        limit, the plugin offers nothing.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.collect_method = function
            return function

        return mount


def _second_annotation(function: Callable[..., Any]) -> Any:
    """Get the annotation of a function's second parameter; None if it has none."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return None
    annotation = parameters[1].annotation if len(parameters) > 1 else None
    if not isinstance(annotation, str):
        return annotation
    # The annotation is a text: it is written in quotation marks, or the module has
    # ``from __future__ import annotations``. So look up the name.
    first, *rest = annotation.strip("'\"").split(".")
    named = getattr(inspect.unwrap(function), "__globals__", {}).get(first)
    for each in rest:
        named = getattr(named, each, None)
    return named


def mount_async_task(plugin: SupportsDeclare, task_type: str) -> Callable[[Function], Function]:
    """Mount an async generator ``async def f(handle, ...)`` that yields `TaskCtl`.
    ``task.start(task_type, ...)`` runs it as a background task; ``handle`` is the task's
    `AsyncTaskHandle`.

    Args:
        plugin: The plugin. You call this as a method, so do not pass it.
        task_type: The name to start it by.

    Returns:
        A decorator that gives the function back.
    """

    def mount(function: Function) -> Function:
        plugin.declare(TaskType(task_type, function))
        return function

    return mount


def mount_router(plugin: SupportsDeclare) -> Callable[[Function], Function]:
    """Mount ``() -> fastapi.APIRouter``: returns the plugin's routes. They are served below
    ``/plugins/{key}`` and need the login of the operator's page. The function is called when the
    plugin is enabled, and the routes are removed when it is disabled.

    Args:
        plugin: The plugin. You call this as a method, so do not pass it.

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
    """Mount ``async (ctx)``: called for a POST to ``/api/webhook/{endpoint}/{secret}``.

    The bot makes the secret, which stays the same after a restart; ``nekro plugin list`` shows the
    whole address. ``ctx.webhook_request`` is the `WebhookRequest`. The call belongs to no chat, so
    the function must name the chat of each message that it sends. A returned dict or list becomes
    the body of the HTTP response.

    Args:
        plugin: The plugin. You call this as a method, so do not pass it.
        endpoint: The part of the address that the author chooses.
        name: The name for people; empty for ``endpoint``.
        description: The purpose of the webhook.

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
