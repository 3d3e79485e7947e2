"""Builds the services that `nekro_core.operator.plugins` uses."""

from nekro_core.agent.turn.tool_service import AgentToolService
from nekro_core.agent.turn.tool_trials import ToolTrials
from nekro_core.app.agent_runtime import AgentRuntime
from nekro_core.app.extensions import Extensions
from nekro_core.app.message_io import MessageIO
from nekro_core.operator.plugins import PluginServices
from nekro_core.plugins.configuration.configurations import PluginConfigurations
from nekro_core.store import Usage
from nekro_core.system.documents import DocumentFolder


def plugin_services(
    message_io: MessageIO,
    extensions: Extensions,
    runtime: AgentRuntime,
    documents: DocumentFolder,
) -> PluginServices:
    """Collect the parts of the bot that manage plugins."""
    registry = extensions.plugins

    async def model_usage(since: float, plugin: str) -> Usage:
        return await message_io.store.model_uses.usage(since=since, plugin=plugin)

    return PluginServices(
        manager=extensions.manager(),
        configurations=PluginConfigurations(registry, documents),
        trials=ToolTrials(registry, AgentToolService(runtime.services)),
        model_usage=model_usage,
        uses=registry.services.uses,
        at_next_start=lambda: registry.at_next_start,
    )
