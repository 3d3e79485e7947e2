"""Runs a whole bot to test one plugin. Only the platform, the model and the clock are
simulated."""

import itertools
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Self, assert_never

import anyio

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey, ChatMessage, Sender, Text, plain_text
from nekro_core.delivery.activity import Activity, Working
from nekro_core.llm.scripted import ScriptedModel, ScriptedReply
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.host.links import link_plugin
from nekro_core.plugins.host.listing import PluginInfo, PluginState
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.plugins.packages import InvalidRequirements, PackageFolder
from nekro_core.plugins.packages.nekro_agent_environment import PROVIDED
from nekro_core.plugins.packages.requirements import plugin_requirements
from nekro_core.policy.settings import TriggerSettings
from nekro_core.system.errors import NekroError
from nekro_core.testing.clock import FakeClock
from nekro_core.testing.platform import ACCOUNT, NAME, Sent, TestPlatform
from nekro_core.testing.script import Script, fenced, newest_words, words_of
from nekro_core.timers.settings import TimerSettings
from nekro_core.tools.outcome import (
    BehaviorReturn,
    Observation,
    RichObservation,
    ToolCallFailed,
    ToolFailure,
    ToolReturn,
    ToolReturnMedia,
)

_LONGEST_S = 60.0
"""Time limit for one turn, in seconds. It is long enough for a busy machine."""
_BEGIN_S = 30.0
"""Time limit until a turn begins, in seconds. If no turn has begun by then, a hook has probably
consumed the message."""
_LOOK_S = 0.05
"""Longest time, in seconds, until the bot's timers notice that the test has set the clock
forward."""
_QUIET_S = 0.5
"""If the bot does nothing for this many seconds, `Chat.say` assumes that the bot has finished."""


class PluginNotLoaded(NekroError, AssertionError):
    """The plugin under test cannot be used. The text says why, where and what to do."""


class Bot:
    """A bot with the plugin under test. The fixture ``bot`` or `Bot.open` makes it.

    Args:
        app: The running application.
        platform: The simulated platform. It stores what the bot sends.
        script: The replies that the simulated model gives.
        clock: The clock that the application uses.
        item: The name of the plugin under test in `nekro plugin list`; empty for no plugin.
    """

    def __init__(
        self, app: App, platform: TestPlatform, script: Script, clock: FakeClock, item: str
    ) -> None:
        self.app = app
        self.clock = clock
        self.platform = platform
        self.script = script
        self._item = item

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        data_dir: Path,
        plugin: Path | None = None,
        *,
        clock: FakeClock | None = None,
        settings: dict[str, Any] | None = None,
    ) -> AsyncIterator[Self]:
        """Start a bot with its data in a folder. The plugin under test is loaded like the bot's
        other plugins. The file ``.env`` is not read.

        Args:
            data_dir: The folder of the bot's data.
            plugin: The file or folder of the plugin under test; None for no plugin.
            clock: The bot's clock; None for a new `FakeClock`.
            settings: Fields of `nekro_core.app.settings.Settings` by name. The debounce is 0 s
                unless ``nekro_trigger`` is given.

        Yields:
            The running bot. It is stopped when the block is left.

        Raises:
            PluginNotLoaded: The plugin is broken or disabled, or a package that it needs is not
                installed.
        """
        item = link_plugin(plugin, data_dir) if plugin else ""
        if plugin:
            _refuse_without_packages(plugin, item, PackageFolder(data_dir))
        chosen: dict[str, Any] = {
            "nekro_trigger": TriggerSettings(debounce_s=0),
            "nekro_timer": TimerSettings(look_s=_LOOK_S),
            **(settings or {}),
        }
        known = Settings(_env_file=None, nekro_data_dir=data_dir, **chosen)  # type: ignore[call-arg]  # a parameter of NoneBot
        clock, platform, script = clock or FakeClock(), TestPlatform(), Script()
        async with App.open(
            known, {}, model=script.model, clock=clock.monotonic, wall=clock.wall
        ) as app:
            app.add_adapter(platform)
            await app.host.instance_of(NAME, ACCOUNT)
            await app.start()
            bot = cls(app, platform, script, clock, item)
            if item:
                bot._refuse_broken()
            yield bot

    def chat(self, key: str = "private_lin", *, name: str = "") -> "Chat":
        """Get a chat by its kind and name.

        Args:
            key: The kind and name, for example ``private_lin`` or ``group_30003``. A text with a
                ``-`` is used as a whole chat key.
            name: The chat's name, which the platform sends with each message; empty for none.

        Returns:
            The chat. It is empty until the test writes something to it.

        Raises:
            ChatKeyError: ``key`` is not a valid chat key.
        """
        return Chat(self, ChatKey.parse(key if "-" in key else f"{NAME}-{key}"), name)

    def foresee(
        self, *, code: str | Sequence[str] = (), reply: str | Sequence[ScriptedReply] = ()
    ) -> None:
        """Set what the model answers to its next requests. `Chat.ask` does the same; use this
        method if a timer, a task or a webhook wakes the bot.

        Args:
            code: Python code that the model answers with, one text for each reply. These replies
                come before the replies in ``reply``.
            reply: Replies that the model gives unchanged after ``code``.
        """
        codes = [code] if isinstance(code, str) else code
        replies = [reply] if isinstance(reply, str) else reply
        self.script.foresee([*map(fenced, codes), *replies])

    async def call(self, tool: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool in the private chat with Lin; see `Chat.call`.

        Args:
            tool: The tool's name.
            *args: The tool's arguments by position.
            **kwargs: The tool's arguments by name.

        Returns:
            The value that the model's code would get; see `Chat.call`.

        Raises:
            ToolFailure: The call failed; the text is what the model would read.
            LookupError: There is no such tool.
        """
        return await self.chat().call(tool, *args, **kwargs)

    @property
    def info(self) -> PluginInfo:
        """The entry of the plugin under test in `nekro plugin list`."""
        return next(info for info in self.app.plugins.plugins() if info.item == self._item)

    @property
    def module(self) -> ModuleType:
        """The module of the plugin, for tests of its functions. A reload makes a new module.

        Raises:
            LookupError: No module is loaded from the plugin's file or folder.
        """
        folder = self.app.host.data_dir / "plugins"
        name = self._item.partition("/")[2]
        inner = (folder / name / "__init__.py", folder / name / "plugin.py")
        places = {str(folder / f"{name}.py"), *map(str, inner)}
        for module in tuple(sys.modules.values()):
            if getattr(module, "__file__", None) in places:
                return module
        raise LookupError(f"{self._item} has no module that is loaded from its files")

    @property
    def plugin(self) -> NekroPlugin:
        """The `NekroPlugin` object of the plugin under test, with its configuration, store and
        folder."""
        return self.app.plugins.loaded(self._item)

    async def reload(self) -> None:
        """Load the plugin again from its files, for example after the test has changed them.

        Raises:
            PluginNotLoaded: The plugin can no longer be loaded; the message says why.
        """
        await self.app.plugins.enable(self._item)
        self._refuse_broken()

    @property
    def model(self) -> ScriptedModel:
        """The simulated model. ``model.requests`` has all requests to it."""
        return self.script.model

    @property
    def prompt(self) -> str:
        """The text of the last request to the model.

        Raises:
            LookupError: No request was sent to the model yet.
        """
        if not self.model.requests:
            raise LookupError("the model was not asked yet")
        return words_of(self.model.requests[-1])

    def _refuse_broken(self) -> None:
        if self.info.state is not PluginState.LOADED:
            problems = "\n".join(map(str, self.info.problems))
            raise PluginNotLoaded(f"the plugin is {self.info.state.value}:\n{problems}")


def _refuse_without_packages(plugin: Path, item: str, packages: PackageFolder) -> None:
    """Raise `PluginNotLoaded` if a package is missing, because a test does not download
    packages."""
    try:
        needs = plugin_requirements(plugin, item, provided=PROVIDED)
    except InvalidRequirements as error:
        raise PluginNotLoaded(str(error)) from None
    if missing := [need for need in needs if not packages.has(need.requirement)]:
        wanted = " ".join(f"'{need.requirement}'" for need in missing)
        raise PluginNotLoaded(f"the plugin needs a package that is not here: pip install {wanted}")


class Chat:
    """One chat of a bot under test: a test writes messages to it and reads what the bot sends.

    Args:
        bot: The bot under test.
        key: The chat's key.
        name: The chat's name on its platform.
    """

    _numbers = itertools.count(1)

    def __init__(self, bot: Bot, key: ChatKey, name: str = "") -> None:
        self.bot = bot
        self.key = key
        self.name = name

    @property
    def sent(self) -> list[Sent]:
        """All messages that the bot sent to the chat, in order."""
        return [sent for sent in self.bot.platform.sent if sent.chat_key == str(self.key)]

    @property
    def texts(self) -> list[str]:
        """The texts of all messages that the bot sent to the chat, in order."""
        return [sent.text for sent in self.sent]

    async def ask(
        self,
        text: str,
        *,
        code: str | Sequence[str] = (),
        reply: str | Sequence[ScriptedReply] = (),
        by: str = "Lin",
    ) -> list[str]:
        """Send a person's message to the bot, let the model answer with ``code`` and then with
        ``reply``, and wait until the turn ends.

        Args:
            text: What the person writes.
            code: Python that the model writes; each of several texts is one reply.
            reply: Replies that the model gives unchanged after ``code``.
            by: The person's name. The user id is the name in lower case.

        Returns:
            The texts that the bot sent to the chat during the turn.

        Raises:
            AssertionError: The number of requests to the model was not the number of given replies,
                or the turn did not begin within 30 s or end within 60 s. If there were too many
                requests, the message contains the end of the first request without a reply, for
                example the traceback of failed code.
        """
        self.bot.foresee(code=code, reply=reply)
        before = len(self.sent)
        async with self.bot.app.operator.activity.watch(self.key) as activities:
            await self._accept(text, by)
            await self._turn(activities)
        unforeseen = [*self.bot.script.unforeseen]
        if left := self.bot.script.clear():
            raise AssertionError(f"the turn ended, and {left} replies were not asked for")
        if unforeseen:
            raise AssertionError(
                "the model was asked again, and the test has no reply for it; it was shown\n\n"
                + newest_words(unforeseen[0])
            )
        return self.texts[before:]

    async def say(self, text: str, *, by: str = "Lin", quiet_s: float = _QUIET_S) -> list[str]:
        """Send a person's message that must not wake the model: a command, or a message that a hook
        consumes.

        Returns when the bot has no work left for this chat and nothing has happened in the chat for
        ``quiet_s``; at the latest after 60 s.

        Args:
            text: What the person writes.
            by: The person's name. The user id is the name in lower case.
            quiet_s: For how many seconds nothing must happen in the chat.

        Returns:
            The texts that the bot sent to the chat meanwhile.

        Raises:
            AssertionError: The message woke the model.
        """
        before = len(self.sent)
        async with self.bot.app.operator.activity.watch(self.key) as activities:
            await self._accept(text, by)
            with anyio.move_on_after(_LONGEST_S):
                while True:
                    activity = None
                    with anyio.move_on_after(quiet_s):
                        activity = await anext(activities)
                    if activity is None and not self.bot.app.at_work(self.key):
                        break
        if self.bot.script.unforeseen:
            self.bot.script.clear()
            raise AssertionError(f"{text!r} woke the model, and the test has no reply for it")
        return self.texts[before:]

    async def call(self, tool: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool as the model's code would in a turn for the person Lin. No model and no box
        are used.

        Args:
            tool: The tool's name.
            *args: The tool's arguments by position.
            **kwargs: The tool's arguments by name.

        Returns:
            The value that the model's code would get: the value of a tool method, the text of an
            agent or behavior method, or the parts of a multimodal agent method. If a tool method
            returned a `ToolReturnMedia`, this object.

        Raises:
            ToolFailure: The call failed; the text is what the model would read.
            LookupError: There is no such tool; the message names the existing tools.
        """
        plugins = self.bot.app.plugins
        ctx = plugins.context_for(self.key, user_id="lin", user_name="Lin", run_id="test")
        tools = await plugins.tools_in(ctx)
        if (found := tools.resolve(tool)) is None:
            known = ", ".join(named.name for named in tools.named)
            raise LookupError(f"there is no tool {tool!r}; there are {known}")
        match await call_tool(found, ctx, args, kwargs):
            case ToolCallFailed(message):
                raise ToolFailure(message)
            case ToolReturn(value):
                return value
            case BehaviorReturn(text) | Observation(text):
                return text
            case RichObservation(parts):
                return parts
            case ToolReturnMedia() as shown:
                return shown
            case other:
                assert_never(other)

    async def gets(self, count: int = 1, *, within_s: float = 30.0) -> list[str]:
        """Wait until the bot has sent ``count`` messages to the chat, for example from a task, a
        timer or a webhook.

        Args:
            count: How many messages, counted from the start of the bot.
            within_s: How many real seconds to wait.

        Returns:
            The texts of all messages that the bot sent to the chat.

        Raises:
            AssertionError: There were fewer messages in that time.
        """
        with anyio.move_on_after(within_s):
            await self.bot.platform.until(lambda: len(self.sent) >= count)
        if len(self.sent) < count:
            raise AssertionError(f"expected {count} messages, the chat got {self.texts}")
        return self.texts

    async def record(self, limit: int = 200) -> list[str]:
        """Get the newest records of the chat's history: of persons, of the bot and of the system.

        Args:
            limit: The largest number of records to return.

        Returns:
            Lines as ``author: text``, oldest first; the author is ``person``, ``bot`` or
            ``system``.
        """
        records = await self.bot.app.host.records(self.key, limit=limit)
        return [f"{each.author.value}: {plain_text(each.segments)}" for each in records]

    async def _turn(self, activities: AsyncIterator[Activity]) -> None:
        """Wait until a turn begins and ends."""
        for busy, limit_s in ((True, _BEGIN_S), (False, _LONGEST_S)):
            with anyio.move_on_after(limit_s) as waiting:
                while await anext(activities) != Working(self.key, busy=busy):
                    pass
            if waiting.cancelled_caught:
                self.bot.script.clear()
                missing = "did not begin to answer" if busy else "did not end its answer"
                raise AssertionError(f"the bot {missing} within {limit_s:g} s")

    async def _accept(self, text: str, by: str) -> None:
        await self.bot.app.host.accept(
            ChatMessage(
                chat_key=self.key,
                message_id=f"said-{next(self._numbers)}",
                sender=Sender(by.lower(), by),
                segments=(Text(text),),
                time=self.bot.clock.wall(),
                account=ACCOUNT,
                to_bot=True,
                chat_name=self.name,
            )
        )
