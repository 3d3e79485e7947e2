"""Re-exports what a plugin's code needs: the plugin object, the context, the declarations."""

from nekro_core.plugins.authoring.command_response import (
    CmdCtl,
    CommandOutputSegment,
    CommandOutputType,
    CommandResponse,
    CommandStatus,
)
from nekro_core.plugins.authoring.commands import CommandExecutionContext, CommandGroup
from nekro_core.plugins.authoring.config import ConfigBase, ConfigError, ExtraField
from nekro_core.plugins.authoring.declarations import SandboxMethod, SandboxMethodType
from nekro_core.plugins.authoring.plugin import NekroPlugin, NotLoaded, PluginStore
from nekro_core.plugins.authoring.tasks import AsyncTaskHandle, TaskCtl, TaskSignal, WaitCancelled
from nekro_core.plugins.commands.arguments import Arg
from nekro_core.plugins.host.dynamic_import import PackageWanted, dynamic_import_pkg
from nekro_core.plugins.tasks.functions import task
from nekro_core.plugins.tasks.runner import TaskRefused, TaskRunner
from nekro_core.policy.permissions import CommandPermission
from nekro_core.system.errors import NekroError
from nekro_core.tools.outcome import ToolFailure

__all__ = [
    "Arg",
    "AsyncTaskHandle",
    "CmdCtl",
    "CommandExecutionContext",
    "CommandGroup",
    "CommandOutputSegment",
    "CommandOutputType",
    "CommandPermission",
    "CommandResponse",
    "CommandStatus",
    "ConfigBase",
    "ConfigError",
    "ExtraField",
    "NekroError",
    "NekroPlugin",
    "NotLoaded",
    "PackageWanted",
    "PluginStore",
    "SandboxMethod",
    "SandboxMethodType",
    "TaskCtl",
    "TaskRefused",
    "TaskRunner",
    "TaskSignal",
    "ToolFailure",
    "WaitCancelled",
    "dynamic_import_pkg",
    "task",
]
