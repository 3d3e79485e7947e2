"""`NekroPlugin`: the one object that a plugin's module makes and registers everything with; and
`PluginStore`, its key-value store."""

import keyword
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

import loguru
from loguru import logger

from nekro_core.chat.catalogue.languages import SupportedLang, get_text
from nekro_core.plugins.authoring import commands, declarations
from nekro_core.plugins.authoring.binding import PluginBinding, PluginOwner, acting, current_owner
from nekro_core.plugins.authoring.config import Configured
from nekro_core.plugins.authoring.declarations import (
    Function,
    Mounting,
    SandboxMethod,
    SandboxMethodType,
)
from nekro_core.plugins.authoring.effects import OwnedTasks, UndoStack
from nekro_core.plugins.authoring.services import PluginDataStore
from nekro_core.system.errors import NekroError
from nekro_core.tools.problem import PluginProblem
from nekro_core.tools.tool import Tool, Visibility


class PluginStore:
    """Stores texts of a plugin, by chat, person and key. An empty chat or person means all.

    Args:
        keeper: Where texts are kept.
        plugin: The plugin's key.
    """

    def __init__(self, keeper: PluginDataStore, plugin: str) -> None:
        self._keeper = keeper
        self._plugin = plugin

    async def get(self, chat_key: str = "", user_key: str = "", store_key: str = "") -> str | None:
        """Get a text.

        Args:
            chat_key: The chat; empty for all.
            user_key: The person; empty for all.
            store_key: The name of the text.

        Returns:
            The text, or None where there is none.
        """
        return await self._keeper.get(
            self._plugin, chat_key=chat_key, user_key=user_key, store_key=store_key
        )

    async def set(
        self, chat_key: str = "", user_key: str = "", store_key: str = "", value: str = ""
    ) -> int:
        """Keep a text.

        Args:
            chat_key: The chat; empty for all.
            user_key: The person; empty for all.
            store_key: The name of the text.
            value: The text. Encode other values, for example as JSON.

        Returns:
            0 if it is new, 1 if it replaced one.

        Raises:
            TypeError: The value is no text.
        """
        if not isinstance(value, str):
            raise TypeError(f"the store keeps str, got {type(value).__name__}: use json.dumps")
        return await self._keeper.set(
            self._plugin, value, chat_key=chat_key, user_key=user_key, store_key=store_key
        )

    async def delete(self, chat_key: str = "", user_key: str = "", store_key: str = "") -> int:
        """Delete a text.

        Args:
            chat_key: The chat; empty for all.
            user_key: The person; empty for all.
            store_key: The name of the text.

        Returns:
            0 if there was one, 1 if there was none.
        """
        return await self._keeper.delete(
            self._plugin, chat_key=chat_key, user_key=user_key, store_key=store_key
        )


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class NotLoaded(NekroError, RuntimeError):
    """The plugin object belongs to no bot: its module was imported by hand."""


class NekroPlugin(Mounting, Configured):
    """A plugin: the object that everything is registered with.

    Args:
        name: The name for people.
        module_name: An identifier; with ``author`` it makes the plugin's ``key``.
        description: What it does, in a sentence.
        version: The plugin's own version.
        author: An identifier.
        url: Where the plugin is to be found.
        support_adapter: The adapters whose chats see its tools; None or empty for all.
        is_builtin: Whether it comes with the bot. Its commands then rank below those of others.
        is_package: Kept as an attribute.
        i18n_name: The name by BCP 47 tag.
        i18n_description: The description by BCP 47 tag.
        allow_sleep: Whether it sleeps in each chat until the AI searches for one of its tools. The
            prompt then shows ``sleep_brief`` instead of its tools and its prompt method's text.
        sleep_brief: The line that the prompt shows for a sleeping plugin.
        webui_path: Kept as an attribute.
        for_small_models: Whether small models are offered its tools. Such a model writes a call or
            two and does not read the results.

    Raises:
        ValueError: ``author`` or ``module_name`` cannot stand in a key.
    """

    def __init__(  # noqa: PLR0917 - existing plugins may give them by position
        self,
        name: str,
        module_name: str,
        description: str = "",
        version: str = "0.1.0",
        author: str = "unknown",
        url: str = "",
        support_adapter: list[str] | None = None,
        is_builtin: bool = False,
        is_package: bool = False,
        i18n_name: dict[str, str] | None = None,
        i18n_description: dict[str, str] | None = None,
        allow_sleep: bool | None = None,
        sleep_brief: str = "",
        webui_path: str | None = None,
        *,
        for_small_models: bool = True,
    ) -> None:
        Mounting.__init__(self)
        Configured.__init__(self)
        for field, value in (("module_name", module_name), ("author", author)):
            if not _NAME.match(value):
                raise ValueError(
                    f"{field} {value!r}: expected letters, digits and '_', no digit first"
                )
        if keyword.iskeyword(module_name):
            raise ValueError(f"module_name {module_name!r} is a word of Python: take another")
        self.name = name
        self.module_name = module_name
        self.description = description
        self.version = version
        self.author = author
        self.url = url
        self.support_adapter = list(support_adapter or ())
        self.is_builtin = is_builtin
        self.is_package = is_package
        self.i18n_name = i18n_name
        self.i18n_description = i18n_description
        self.allow_sleep = allow_sleep
        self.sleep_brief = sleep_brief
        self.webui_path = webui_path
        self.for_small_models = for_small_models
        self.is_enabled = False
        self.sandbox_methods: list[SandboxMethod] = []
        self.offered_tools: list[Tool] = []
        """Tools that are described already: another host's, for example."""
        self.addresses: list[str] = []
        """Its HTTP addresses, below the bot's address. A webhook's address contains its secret."""
        self.problems: list[PluginProblem] = []
        """Problems that were found while it was loaded, for the operator."""
        self.declared: list[object] = []
        self._owner: PluginOwner | None = current_owner()

    @property
    def key(self) -> str:
        """``author.module_name``: unique in a bot."""
        return f"{self.author}.{self.module_name}"

    @property
    def logger(self) -> "loguru.Logger":
        """The log, with the plugin's key in every line's extras."""
        return logger.bind(plugin=self.key)

    @property
    def store(self) -> PluginStore:
        """What the plugin keeps. Raises `NotLoaded`."""
        return PluginStore(self._bound().plugin_data, self.key)

    def get_plugin_data_dir(self) -> Path:
        """Get the plugin's own folder, made where it is missing.

        Returns:
            The folder on the host, below the data folder.

        Raises:
            NotLoaded: The plugin belongs to no bot.
        """
        folder = self._folder()
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def get_plugin_path(self) -> Path:
        """The same; the older name.

        Returns:
            As of `get_plugin_data_dir`.
        """
        return self.get_plugin_data_dir()

    def get_vector_collection_name(self, key: str = "") -> str:
        """Name the plugin's vector collection, or one of several.

        Args:
            key: Tells several collections apart; empty for the only one.

        Returns:
            The plugin's key, with ``-`` and ``key`` where one is given.
        """
        return f"{self.key}-{key}" if key else self.key

    def get_name(self, lang: str = SupportedLang.EN_US) -> str:
        """The name to show in a language.

        Args:
            lang: A BCP 47 tag.

        Returns:
            The name in that language, else in English, else ``name``.
        """
        return get_text(self.i18n_name, self.name, lang)

    def get_description(self, lang: str = SupportedLang.EN_US) -> str:
        """The description to show in a language.

        Args:
            lang: A BCP 47 tag.

        Returns:
            The description in that language, else in English, else ``description``.
        """
        return get_text(self.i18n_description, self.description, lang)

    @property
    def effects(self) -> UndoStack:
        """The undo steps of the plugin. Code that changes the bot for this plugin adds a step here.
        The steps run when the plugin is disabled or reloaded and when the bot ends. Raises
        `NotLoaded`."""
        return self._owned().effects

    @property
    def tasks(self) -> OwnedTasks:
        """The tasks of the plugin, however they were started. They end with it. Raises
        `NotLoaded`."""
        return self._owned().tasks

    def declare(self, value: object) -> None:
        """Say that the plugin has a command, a router, a timer, ...

        The bot's `Registrar` for the type of ``value`` puts it into effect. For a value that is
        declared while the plugin is imported or in its init method, that happens when the plugin is
        enabled; for later values at once. The ``mount_...`` methods use this.

        Args:
            value: What is declared, of a type that the bot has a `Registrar` for.
        """
        self.declared.append(value)
        if self._owner is not None and self.is_enabled:
            self._owner.binding.put(self, value)

    def acting(self) -> AbstractContextManager[None]:
        """Enter this around each call of the plugin's code that is not a tool or a hook. Tasks that
        it starts then belong to the plugin, and functions without a context find the bot.

        Returns:
            A context manager to enter around the call.
        """
        return acting(self._owner)

    mount_command = commands.mount_command
    mount_command_group = commands.mount_command_group
    mount_async_task = declarations.mount_async_task
    mount_router = declarations.mount_router
    mount_webhook_method = declarations.mount_webhook_method

    def mount_sandbox_method(
        self,
        method_type: SandboxMethodType,
        name: str,
        description: str = "",
        *,
        needs_chat: bool = True,
        visibility: Literal["visible", "deferred", "hidden"] = "visible",
    ) -> Callable[[Function], Function]:
        """Offer an ``async def f(_ctx: AgentCtx, ...)`` to the AI; the function stays as it is.

        What its kind does to the turn: see `SandboxMethodType`. ``name`` is how the AI calls it
        where it is an identifier; the function's own name always works too. One that neither sends
        nor reads anything of the chat may say so with ``needs_chat=False``: then other programs can
        call it over MCP without choosing a chat. A ``deferred`` one costs the prompt a line, and is
        shown in full when the AI searches for it; a ``hidden`` one is not offered. What is wrong
        with the function is reported when the plugin has been imported.

        Args:
            method_type: What the method's result does to the turn.
            name: How the AI calls it, where it is an identifier.
            description: What the AI is told of it.
            needs_chat: False where it neither sends nor reads anything of the chat.
            visibility: ``visible``, ``deferred`` or ``hidden``.

        Returns:
            A decorator that gives the function back.

        Raises:
            ValueError: There is no such type or visibility.
        """
        kind = SandboxMethodType(method_type)
        seen = Visibility(visibility)

        def mount(function: Function) -> Function:
            if hasattr(function, "__dict__"):
                function.__dict__["_method_type"] = kind
            self.sandbox_methods.append(
                SandboxMethod(kind, name, description, function, needs_chat, seen)
            )
            self._changed()
            return function

        return mount

    def _folder(self) -> Path:
        return self._bound().data_dir / "plugin_data" / self.key

    def _bot(self) -> PluginOwner | None:
        return self._owner

    def _bound(self) -> PluginBinding:
        return self._owned().binding

    def _owned(self) -> PluginOwner:
        if self._owner is None:
            raise NotLoaded(
                f"{self.key} belongs to no bot: put it under data/plugins, or in a test import it "
                "inside nekro_core.plugins.authoring.binding.loading(...)"
            )
        return self._owner

    def tools_changed(self) -> None:
        """Call this after changing `offered_tools` or `problems`."""
        self._changed()

    def _changed(self) -> None:
        if self._owner is not None and self.is_enabled:
            self._owner.binding.changed()
