"""`NekroPlugin`, the object that a plugin's module creates and registers everything with, and
`PluginStore`, the plugin's key-value store."""

import keyword
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, Literal

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
from nekro_core.plugins.forms.configuration import PluginConfiguration
from nekro_core.system.errors import NekroError
from nekro_core.tools.examples import read_examples
from nekro_core.tools.problem import PluginProblem
from nekro_core.tools.tool import Tool, Visibility


class PluginStore:
    """Stores texts of a plugin by chat, person and key. An empty chat or person means that the text
    belongs to no particular chat or person.

    Args:
        keeper: Stores the texts in the database.
        plugin: The plugin's key.
    """

    def __init__(self, keeper: PluginDataStore, plugin: str) -> None:
        self._keeper = keeper
        self._plugin = plugin

    async def get(self, chat_key: str = "", user_key: str = "", store_key: str = "") -> str | None:
        """Get a text.

        Args:
            chat_key: The chat; empty for none in particular.
            user_key: The person; empty for none in particular.
            store_key: The name of the text.

        Returns:
            The text, or None if there is none.
        """
        return await self._keeper.get(
            self._plugin, chat_key=chat_key, user_key=user_key, store_key=store_key
        )

    async def set(
        self, chat_key: str = "", user_key: str = "", store_key: str = "", value: str = ""
    ) -> int:
        """Store a text.

        Args:
            chat_key: The chat; empty for none in particular.
            user_key: The person; empty for none in particular.
            store_key: The name of the text.
            value: The text. Encode other values, for example as JSON.

        Returns:
            0 if the text is new, 1 if it replaced one.

        Raises:
            TypeError: The value is not a text.
        """
        if not isinstance(value, str):
            raise TypeError(f"the store keeps str, got {type(value).__name__}: use json.dumps")
        return await self._keeper.set(
            self._plugin, value, chat_key=chat_key, user_key=user_key, store_key=store_key
        )

    async def delete(self, chat_key: str = "", user_key: str = "", store_key: str = "") -> int:
        """Delete a text.

        Args:
            chat_key: The chat; empty for none in particular.
            user_key: The person; empty for none in particular.
            store_key: The name of the text.

        Returns:
            0 if there was one, 1 if there was none.
        """
        return await self._keeper.delete(
            self._plugin, chat_key=chat_key, user_key=user_key, store_key=store_key
        )


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class NotLoaded(NekroError, RuntimeError):
    """The plugin object belongs to no bot, because its module was imported without the bot's
    loader."""


class NekroPlugin(Mounting, Configured):
    """A plugin: the object that everything is registered with.

    Args:
        name: The name that people see.
        module_name: An identifier; with ``author`` it makes the plugin's ``key``.
        description: What it does, in a sentence.
        version: The plugin's own version.
        author: An identifier.
        url: The plugin's web page.
        support_adapter: The adapters whose chats see its tools; None or empty for all.
        is_builtin: Whether it comes with the bot. If another plugin has a command of the same name,
            the other plugin's command is used.
        is_package: Stored as an attribute; has no other effect.
        i18n_name: The name in each language, by BCP 47 tag.
        i18n_description: The description in each language, by BCP 47 tag.
        allow_sleep: Whether the plugin sleeps in each chat until the AI searches for one of its
            tools. While it sleeps, the prompt shows ``sleep_brief`` instead of its tools and its
            prompt method's text.
        sleep_brief: The line that the prompt shows for a sleeping plugin.
        webui_path: Stored as an attribute; has no other effect.
        for_small_models: Whether the bot offers its tools to small models too. Such a model writes
            one or two calls and does not read the results.

    Raises:
        ValueError: ``author`` or ``module_name`` is not valid in a key.
    """

    is_lenient: ClassVar[bool] = False
    """Whether handlers are accepted that break a rule for handlers; see the argument ``lenient`` of
    `nekro_core.tools.describe.describe`."""

    def __init__(  # noqa: PLR0917 - existing plugins may pass them by position
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
        self.module_key = self.key_part("module_name", module_name)
        """The module's part of the key. An identifier; code calls the tools by it."""
        self._author_key = self.key_part("author", author)
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
        """Tools that were not made from mounted functions, for example those of another bot's
        plugins."""
        self.addresses: list[str] = []
        """The plugin's HTTP addresses, below the bot's address. A webhook's address contains its
        secret."""
        self.problems: list[PluginProblem] = []
        """Problems that the loader found in the plugin; the operator sees them."""
        self.declared: list[object] = []
        self.configuration: PluginConfiguration | None = None
        """The configuration of a plugin that was written for another bot; None if the plugin's
        configuration is a `ConfigBase`."""
        self._owner: PluginOwner | None = current_owner()
        if self._owner is not None and self._owner.key != self.key:
            self._owner.keys.append(self.key)

    @classmethod
    def key_part(cls, field: str, text: str) -> str:
        """Make a part of the plugin's key from a text.

        Args:
            field: ``author`` or ``module_name``.
            text: The author or the module name as the plugin writes it.

        Returns:
            The same text. A subclass may return another text if the text is not valid in a key.

        Raises:
            ValueError: The text is not valid in a key.
        """
        if not _NAME.match(text):
            raise ValueError(f"{field} {text!r}: expected letters, digits and '_', no digit first")
        if field == "module_name" and keyword.iskeyword(text):
            raise ValueError(f"module_name {text!r} is a word of Python: take another")
        return text

    @property
    def key(self) -> str:
        """``author.module_name``: unique in a bot. Part of file names, URLs and settings."""
        return f"{self._author_key}.{self.module_key}"

    @property
    def logger(self) -> "loguru.Logger":
        """The logger. It adds the plugin's key to the extras of every line."""
        return logger.bind(plugin=self.key)

    @property
    def store(self) -> PluginStore:
        """The plugin's key-value store. Raises `NotLoaded`."""
        return PluginStore(self._bound().plugin_data, self.key)

    def get_plugin_data_dir(self) -> Path:
        """Get the plugin's own folder. It is created if it is missing.

        Returns:
            The folder on the host, below the data folder.

        Raises:
            NotLoaded: The plugin belongs to no bot.
        """
        folder = self._folder()
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def get_plugin_path(self) -> Path:
        """Get the plugin's own folder; an older name of `get_plugin_data_dir`.

        Returns:
            As of `get_plugin_data_dir`.
        """
        return self.get_plugin_data_dir()

    def get_vector_collection_name(self, key: str = "") -> str:
        """Get the name of a vector collection of the plugin.

        Args:
            key: Distinguishes several collections; empty if the plugin has one.

        Returns:
            The plugin's key; followed by ``-`` and ``key`` if ``key`` is not empty.
        """
        return f"{self.key}-{key}" if key else self.key

    def get_name(self, lang: str = SupportedLang.EN_US) -> str:
        """Get the plugin's name in a language.

        Args:
            lang: A BCP 47 tag.

        Returns:
            The name in that language, else in English, else ``name``.
        """
        return get_text(self.i18n_name, self.name, lang)

    def get_description(self, lang: str = SupportedLang.EN_US) -> str:
        """Get the plugin's description in a language.

        Args:
            lang: A BCP 47 tag.

        Returns:
            The description in that language, else in English, else ``description``.
        """
        return get_text(self.i18n_description, self.description, lang)

    @property
    def effects(self) -> UndoStack:
        """The undo steps of the plugin. Code that changes the bot for this plugin adds a step here.
        The steps run when the plugin is disabled or reloaded, and when the bot ends. Raises
        `NotLoaded`."""
        return self._owned().effects

    @property
    def tasks(self) -> OwnedTasks:
        """All tasks that the plugin started. They are ended when the plugin is unloaded. Raises
        `NotLoaded`."""
        return self._owned().tasks

    def declare(self, value: object) -> None:
        """Register something of the plugin: a command, a router, a timer and so on.

        The bot has a `Registrar` for each type of ``value``, which puts the value into effect. If
        the plugin declares the value while it is imported or in its init method, this happens when
        the plugin is enabled. A later value takes effect at once. The ``mount_...`` methods use
        this.

        Args:
            value: The declaration. The bot must have a `Registrar` for its type.
        """
        self.declared.append(value)
        if self._owner is not None and self.is_enabled:
            self._owner.binding.put(self, value)

    def acting(self) -> AbstractContextManager[None]:
        """Enter this around each call of the plugin's code that is not a tool or a hook. Tasks that
        the code starts then belong to the plugin, and functions that get no context find the bot.

        Returns:
            The context manager.
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
        visibility: Literal["visible", "deferred", "unlisted", "hidden"] = "visible",
        confirms: bool = False,
        examples: str | Path = "",
    ) -> Callable[[Function], Function]:
        """Offer an ``async def f(_ctx: AgentCtx, ...)`` to the AI. The decorator returns the
        function unchanged.

        `SandboxMethodType` says what each type does to the turn. The AI can always call the
        function by its own name, and also by ``name`` if that is an identifier. With
        ``needs_chat=False``, other programs can call the function over MCP without choosing a chat;
        use it only if the function neither sends to the chat nor reads from it. The prompt shows a
        ``visible`` function in full. Of a ``deferred`` function it shows one line until the AI
        searches for the function. An ``unlisted`` function is not in the prompt, but code can call
        it. The prompt of a small model contains it nevertheless, if the function has worked
        examples. A ``hidden`` function is not offered. Problems with the function are reported
        after the plugin has been imported.

        ``confirms=True`` says that the result of a ``TOOL`` (one of the types) only confirms what
        was done. A model that calls functions natively is then not asked again only to read this
        result, if it has written to the chat in the same reply, or if its code has sent a message
        before the call.

        Args:
            method_type: What the method's result does to the turn.
            name: A name for the AI, if it is an identifier.
            description: What the prompt says about the function.
            needs_chat: False if the function neither sends to the chat nor reads from it.
            visibility: ``visible``, ``deferred``, ``unlisted`` or ``hidden``.
            confirms: Whether the result only confirms what was done.
            examples: More worked examples for small models, written as in the docstring's
                ``Example:`` section: their text, or the path of a UTF-8 text file, or of a folder
                of ``.txt`` files. Other models do not see them.

        Returns:
            A decorator that gives the function back.

        Raises:
            ValueError: There is no such type or visibility, or no readable file of examples.
        """
        kind = SandboxMethodType(method_type)
        seen = Visibility(visibility)
        more = read_examples(examples)

        def mount(function: Function) -> Function:
            if hasattr(function, "__dict__"):
                function.__dict__["_method_type"] = kind
            self.sandbox_methods.append(
                SandboxMethod(kind, name, description, function, needs_chat, seen, confirms, more)
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
