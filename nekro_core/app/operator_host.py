"""Builds the interface through which the operator's pages use the bot."""

from nekro_core.app.extensions import Extensions
from nekro_core.app.message_io import MessageIO
from nekro_core.operator.contract import OperatorHost, PluginShown, PluginsShown, Site
from nekro_core.operator.live_tools import LiveTools
from nekro_core.operator.live_turns import LiveTurns
from nekro_core.plugins.host.listing import PluginInfo
from nekro_core.plugins.host.registry import PluginRegistry


class PluginOverview:
    """Implements `PluginList` with the plugin registry."""

    def __init__(self, registry: PluginRegistry) -> None:
        self._registry = registry

    def shown(self) -> PluginsShown:
        """See `PluginList.shown`."""
        return PluginsShown(
            plugins=tuple(map(_shown, self._registry.plugins())),
            at_next_start=self._registry.at_next_start,
        )


def operator_host(
    message_io: MessageIO,
    extensions: Extensions,
    *,
    site: Site,
    turns: LiveTurns,
    tools: LiveTools,
) -> OperatorHost:
    """Collect the objects that the operator's pages use. The pages call them directly."""
    store = message_io.store
    return OperatorHost(
        tools=tools,
        outbox=message_io.outbox.admin,
        turns=store.turn_log,
        runs=store.runs,
        plugins=PluginOverview(extensions.plugins),
        activity=message_io.activity,
        sessions=turns,
        chats=store.chats,
        media=message_io.media,
        pages=extensions.pages,
        webhooks=extensions.webhooks,
        site=site,
    )


def _shown(info: PluginInfo) -> PluginShown:
    """Convert a plugin's data for the pages. The addresses of its webhooks are left out, because
    they contain secrets."""
    return PluginShown(
        item=info.item,
        state=info.state.value,
        key=info.key,
        version=info.version,
        author=info.author,
        description=info.description,
        tools=tuple(tool.name for tool in info.tools),
        problems=tuple(f"{each.severity.value}: {each}" for each in info.problems),
    )
