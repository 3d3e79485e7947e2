"""Shows the plugins to operators, and installs, updates, configures and tries them while the bot
runs."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pydantic import Base64Bytes, Field, Secret, SecretStr

from nekro_core.agent.turn.tool_trials import NoSuchTool, ShownTool, ToolTrials
from nekro_core.chat import ChatKey
from nekro_core.operator.actions import NO_PROGRESS, Area, Progress, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.elsewhere import ProcessChoice
from nekro_core.operator.errors import ChangedMeanwhile, InvalidParameters, NoSuchItem
from nekro_core.operator.plugin_views import (
    PluginsView,
    PluginUseView,
    PluginView,
    ProposalView,
    ToolUseView,
    TrialView,
    joined_uses,
    plugin_view,
    proposal_view,
    state_values,
    trial_view,
)
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.plugins.authoring.tool_uses import PluginFault, PluginUses
from nekro_core.plugins.configuration.configurations import (
    ConfigurationChange,
    ConfigurationChanged,
    ConfigurationForm,
    NoConfiguration,
    PluginConfigurations,
)
from nekro_core.plugins.forms.configuration import FormRefused
from nekro_core.plugins.host.listing import PluginInfo, UnknownPlugin
from nekro_core.plugins.installation.bot_follower import InstallStage
from nekro_core.plugins.installation.manager import InstallStep, PluginChange, PluginManager
from nekro_core.plugins.installation.plugin_index import IndexedPlugin
from nekro_core.plugins.installation.sources import SourceRefused, parse
from nekro_core.store import Usage

PluginName = Annotated[str, Field(min_length=1, max_length=200)]
Source = Annotated[SecretStr, Field(max_length=2000)]
"""The source of a plugin. Its address may contain a token, so the audit log stores stars in its
place."""

_STAGES: Mapping[InstallStage, str] = {
    InstallStage.FETCH: "fetching the files",
    InstallStage.PACKAGES: "installing packages",
    InstallStage.CHECK: "checking it in a confined process",
    InstallStage.REPLACE: "replacing the files",
    InstallStage.LOAD: "loading it",
}
_ORDER = [*InstallStage]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginServices:
    """The parts of the bot that `Plugins` uses.

    Attributes:
        manager: Installs, updates, switches and removes plugins.
        configurations: Shows and changes their configurations.
        trials: Shows and tries their tools.
        model_usage: Sums up a plugin's requests to models since a time
            (`nekro_core.store.model_uses.ModelUseRepository.usage`).
        uses: Counts calls and errors; None if nothing is counted.
        at_next_start: Returns the packages whose newer version is used only after the next start.
    """

    manager: PluginManager
    configurations: PluginConfigurations
    trials: ToolTrials
    model_usage: Callable[[float, str], Awaitable[Usage]]
    uses: PluginUses | None
    at_next_start: Callable[[], tuple[str, ...]]


class Plugins(Area):
    """The plugins of the bot.

    Args:
        audit: The audit log.
        services: The parts of the bot.
    """

    name = "plugins"

    def __init__(self, audit: AuditLog, services: PluginServices) -> None:
        super().__init__(audit)
        self._services = services
        self._manager = services.manager

    @query(role=AccessRole.VIEWER)
    async def every(self, actor: Actor) -> PluginsView:  # noqa: ARG002
        """List all plugins, including the built-in plugins."""
        found = await self._manager.plugins()
        return PluginsView(
            plugins=tuple(
                plugin_view(
                    each,
                    has_form=self._services.configurations.has_form(each.info.item),
                    errors=self._errors(each.info.key),
                )
                for each in found
            ),
            at_next_start=self._services.at_next_start(),
        )

    @query(role=AccessRole.VIEWER)
    async def one(self, actor: Actor, *, plugin: PluginName) -> PluginView:  # noqa: ARG002
        """Get one plugin.

        Args:
            plugin: Its key, or its item (its place, such as local/weather).
        """
        return await self._view(plugin)

    @query(role=AccessRole.OWNER)
    async def index(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        address: Annotated[str, Field(min_length=1, max_length=2000)],
    ) -> tuple[IndexedPlugin, ...]:
        """Read an index: a file that lists plugins with their addresses.

        Args:
            address: Its ``http`` or ``https`` address, or a ``.json`` or ``.toml`` file.
        """
        return await self._manager.index(address)

    @action(role=AccessRole.OWNER, takes_file=True)
    async def upload(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        name: Annotated[str, Field(min_length=1, max_length=200)],
        data: Secret[Base64Bytes],
    ) -> Change[str]:
        """Upload a plugin's zip or Python file to the bot's machine. Nothing is installed. The
        result is the path of the file, which `look` and `install` accept as a source.

        Args:
            name: The name of the file.
            data: Its bytes in base64, at most 45 MB of bytes. The audit log does not store them.
        """
        with _told("data"):
            stored = await self._manager.keep_upload(name, data.get_secret_value())
        return Change(result=str(stored), subject=name, new=str(stored))

    @action(role=AccessRole.OWNER)
    async def look(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        source: Source,
        check: bool = True,
        progress: Progress = NO_PROGRESS,
    ) -> Change[ProposalView]:
        """Fetch a plugin, and show what it is and what it may do. Nothing is installed.

        Args:
            source: A git address (with ``#branch`` or ``#tag`` if needed), the address of a zip, or
                a folder, zip or ``.py`` on the bot's machine.
            check: Whether to load it in a confined process, which also says what a model reads
                about it.
        """
        with _told("source"):
            found = await self._manager.look(
                source.get_secret_value(), check=check, progress=_reporting(progress)
            )
        return Change(result=proposal_view(found), subject=str(found.source))

    @action(role=AccessRole.OPERATOR)
    async def look_at_update(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        plugin: PluginName,
        check: bool = True,
        progress: Progress = NO_PROGRESS,
    ) -> Change[ProposalView]:
        """Fetch a plugin again from its source, and show what an update would change. Nothing is
        changed yet.

        Args:
            plugin: Its key, or its item (its place, such as local/weather).
            check: As in `look`.
        """
        with _told("plugin"):
            found = await self._manager.look_at_update(
                plugin, check=check, progress=_reporting(progress)
            )
        return Change(result=proposal_view(found), subject=plugin)

    @action(role=AccessRole.OWNER)
    async def install(
        self,
        actor: Actor,
        *,
        source: Source,
        expected: str = "",
        force: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> Change[PluginView]:
        """Install a plugin with the packages that it needs, and load it.

        Args:
            source: As in `look`.
            expected: The ``digest`` that `look` showed. Other files are refused.
            force: Whether to install the plugin even if it cannot be loaded.
        """
        with _told("source"):
            change = await self._manager.install(
                source.get_secret_value(),
                expected=expected,
                force=force,
                by=actor.name,
                progress=_reporting(progress),
            )
            came_from = str(parse(source.get_secret_value()))
        undo = UndoCall(action="plugins.remove", parameters={"plugin": change.item, "data": False})
        return await self._changed(change, undo, source=came_from)

    @action(role=AccessRole.OWNER)
    async def update(
        self,
        actor: Actor,
        *,
        plugin: PluginName,
        source: Source | None = None,
        expected: str = "",
        force: bool = False,
        progress: Progress = NO_PROGRESS,
    ) -> Change[PluginView]:
        """Fetch a plugin again and load the new version. A copy of the old version is kept. If the
        new version cannot be loaded, the old version stays installed.

        Args:
            plugin: Its key, or its item (its place, such as local/weather).
            source: Where the new version is; by default, the source of the old version.
            expected: The ``digest`` that `look` showed. Other files are refused.
            force: Whether to overwrite files that were changed on this machine, and to keep the new
                version even if it cannot be loaded.
        """
        with _told("plugin"):
            change = await self._manager.update(
                plugin,
                source=source.get_secret_value() if source is not None else "",
                expected=expected,
                force=force,
                by=actor.name,
                progress=_reporting(progress),
            )
        undo = UndoCall(action="plugins.roll_back", parameters={"plugin": change.item})
        return await self._changed(change, undo if change.changed else None)

    @action(role=AccessRole.OPERATOR)
    async def roll_back(
        self,
        actor: Actor,
        *,
        plugin: PluginName,
        number: int | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> Change[PluginView]:
        """Go back to an old version of a plugin. Files that the plugin wrote into its folder stay.

        Args:
            plugin: Its key, or its item (its place, such as local/weather).
            number: The number of the old version; by default, the newest old version.
        """
        with _told("plugin"):
            change = await self._manager.roll_back(
                plugin, number, by=actor.name, progress=_reporting(progress)
            )
        undo = UndoCall(action="plugins.roll_back", parameters={"plugin": change.item})
        return await self._changed(change, undo)

    @action(role=AccessRole.OPERATOR, destructive=True)
    async def remove(
        self,
        actor: Actor,
        *,
        plugin: PluginName,
        data: bool,
        progress: Progress = NO_PROGRESS,
    ) -> Change[None]:
        """Unload a plugin, and delete its files, its old versions and the packages that no other
        plugin needs.

        Args:
            plugin: Its key, or its item (its place, such as local/weather).
            data: Whether to delete its data and configuration too.
        """
        with _told("plugin"):
            before = await self._view(plugin)
            await self._manager.remove(
                plugin, data=data, by=actor.name, progress=_reporting(progress)
            )
        return Change(
            result=None,
            subject=before.key or before.item,
            old={**state_values(before), "source": before.source},
            new={"removed": True, "data": "deleted" if data else "kept"},
        )

    @action(role=AccessRole.OPERATOR)
    async def enable(self, actor: Actor, *, plugin: PluginName) -> Change[PluginView]:
        """Load a plugin, now and at each start.

        Args:
            plugin: Its key, or its item (its place, such as local/weather).
        """
        switch = partial(self._manager.enable, by=actor.name)
        return await self._switched(plugin, switch, "disable")

    @action(role=AccessRole.OPERATOR)
    async def disable(self, actor: Actor, *, plugin: PluginName) -> Change[PluginView]:
        """Unload a plugin until it is enabled again. Its data stays.

        Args:
            plugin: Its key, or its item (its place, such as local/weather).
        """
        switch = partial(self._manager.disable, by=actor.name)
        return await self._switched(plugin, switch, "enable")

    @action(role=AccessRole.OPERATOR)
    async def reload(self, actor: Actor, *, plugin: PluginName) -> Change[PluginView]:  # noqa: ARG002
        """Load a plugin anew from its files.

        Args:
            plugin: Its key, or its item (its place, such as local/weather).
        """
        return await self._switched(plugin, self._manager.reload, "")

    @query(role=AccessRole.VIEWER)
    async def form(self, actor: Actor, *, plugin: PluginName) -> ConfigurationForm:  # noqa: ARG002
        """Get the form of a plugin's configuration, with the present values. A secret that is set
        is shown as ``{"$secret": "place"}``.

        Args:
            plugin: Its key, or its item (its place, such as local/weather).
        """
        with _told("plugin"):
            return await self._services.configurations.form(plugin)

    @action(role=AccessRole.OWNER)
    async def configure(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        plugin: PluginName,
        values: Secret[dict[str, Any]],
        expected: str,
    ) -> Change[ConfigurationChange]:
        """Change a plugin's configuration. The plugin uses the new values at once.

        Args:
            plugin: Its key, or its item (its place, such as local/weather).
            values: The values by name. Values that are left out do not change. A secret that is
                sent back as it was shown does not change.
            expected: The ``revision`` of the form that was filled in.
        """
        with _told("plugin"):
            change = await self._services.configurations.write(
                plugin, values.get_secret_value(), expected=expected
            )
        undo = None
        if change.undo:
            parameters = {
                "plugin": change.plugin,
                "values": change.undo,
                "expected": change.revision,
            }
            undo = UndoCall(action="plugins.configure", parameters=parameters)
        return Change(
            result=change,
            subject=change.plugin,
            old={each.place: each.old for each in change.changes},
            new={each.place: each.new for each in change.changes},
            undo=undo,
        )

    @query(role=AccessRole.VIEWER)
    async def tools(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        plugin: str = "",
        chat_key: ChatKey | None = None,
    ) -> tuple[ShownTool, ...]:
        """List tools as the model sees them, each with a form to try it.

        Args:
            plugin: Only tools of the plugin with this key.
            chat_key: Only tools that this chat has now.
        """
        return await self._services.trials.tools(chat_key, plugin=plugin)

    @action(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
    async def try_tool(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        name: Annotated[str, Field(min_length=1, max_length=300)],
        arguments: dict[str, Any],
        chat_key: ChatKey | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> Change[TrialView]:
        """Call a tool as the model would. The tool has its usual effects; for example, messages
        that it sends arrive.

        Args:
            name: Its name in the model's code.
            arguments: The arguments by name.
            chat_key: The chat in which to call it. It may be left out for a tool that needs none.
        """
        progress.report(f"calling {name}", code="tool", name=name)
        with _told("name"):
            trial = await self._services.trials.try_tool(chat_key, name, arguments)
        view = trial_view(trial)
        return Change(result=view, subject=name, new="failed" if view.failed else "answered")

    @query(role=AccessRole.VIEWER, process=ProcessChoice.ANY)
    async def use(
        self,
        actor: Actor,
        *,
        plugin: PluginName,
        since: float = 0.0,
    ) -> PluginUseView:
        """Say how a plugin was used: calls and errors of its tools since the bot's start, and what
        it spent on models.

        Args:
            plugin: Its key, or its item (its place, such as local/weather).
            since: Requests to models count from this time on, in seconds since 1970.
        """
        info = self._info(plugin)
        uses = self._services.uses
        errors, last = self._errors(info.key)
        # Requests to models within a tool call are stored under the plugin's key, all others under
        # its item (`PluginView.item`).
        spent = [await self._services.model_usage(since, each) for each in {info.key, info.item}]
        own = PluginUseView(
            plugin=info.key,
            tools=tuple(
                ToolUseView(
                    name=name,
                    calls=each.calls,
                    errors=each.errors,
                    seconds=each.seconds,
                    last_error=each.last_error,
                )
                for name, each in (uses.tools_of(info.key).items() if uses is not None else ())
            ),
            errors=errors,
            last_error=last,
            model_requests=sum(each.steps for each in spent),
            prompt_tokens=sum(each.prompt_tokens for each in spent),
            completion_tokens=sum(each.completion_tokens for each in spent),
            cost=sum(each.cost for each in spent),
            published_cost=sum(each.published_cost for each in spent),
            unpriced=sum(each.unpriced for each in spent),
        )
        if self.others is None:
            return own
        given = {"plugin": plugin, "since": since}
        return joined_uses([own, *await self.others.at_workers(self.use, actor, given)])

    async def _switched(
        self, plugin: str, switch: Callable[[str], Awaitable[PluginInfo]], back: str
    ) -> Change[PluginView]:
        with _told("plugin"):
            before = self._info(plugin)
            info = await switch(plugin)
            view = await self._view(info.item)
        undo = UndoCall(action=f"plugins.{back}", parameters={"plugin": info.item})
        return Change(
            result=view,
            subject=view.key or view.item,
            old={"state": before.state.value, "version": before.version},
            new=state_values(view),
            undo=undo if back and before.state is not info.state else None,
        )

    async def _changed(
        self, change: PluginChange, undo: UndoCall | None, **more: str
    ) -> Change[PluginView]:
        view = await self._view(change.item)
        return Change(
            result=view,
            subject=view.key or view.item,
            old={"version": change.before},
            new={**state_values(view), **more},
            undo=undo,
        )

    async def _view(self, plugin: str) -> PluginView:
        with _told("plugin"):
            found = await self._manager.one(plugin)
        return plugin_view(
            found,
            has_form=self._services.configurations.has_form(found.info.item),
            errors=self._errors(found.info.key),
        )

    def _info(self, plugin: str) -> PluginInfo:
        with _told("plugin"):
            return self._manager.info(plugin)

    def _errors(self, key: str) -> tuple[int, PluginFault | None]:
        uses = self._services.uses
        return uses.errors_of(key) if uses is not None else (0, None)


@contextmanager
def _told(parameter: str) -> Iterator[None]:
    """Convert errors of lower rooms (packages of ``nekro_core``) to `OperatorError`. If the source
    of a plugin was refused, the error says that the parameter with the name ``parameter`` is
    wrong."""
    try:
        yield
    except (UnknownPlugin, NoConfiguration, NoSuchTool) as error:
        raise NoSuchItem(str(error.args[0])) from None
    except ConfigurationChanged as error:
        raise ChangedMeanwhile(str(error)) from None
    except FormRefused as error:
        problems = {f"values.{place}": text for place, text in error.problems.items()}
        raise InvalidParameters(problems or {"values": str(error)}) from None
    except SourceRefused as error:
        raise InvalidParameters({parameter: str(error)}) from None


def _reporting(progress: Progress) -> Callable[[InstallStep], None]:
    def report(step: InstallStep) -> None:
        done = _ORDER.index(step.stage)
        text = step.text.strip() or _STAGES[step.stage]
        progress.report(text, done=done, total=len(_ORDER), code=step.stage.value)

    return report
