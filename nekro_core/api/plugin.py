"""What a plugin is made of."""

from nekro_core.plugin.commands.access import CommandPermission
from nekro_core.plugin.commands.arguments import Arg
from nekro_core.plugin.commands.command import CommandExecutionContext
from nekro_core.plugin.commands.mounting import CommandGroup
from nekro_core.plugin.commands.response import (
    CmdCtl,
    CommandOutputSegment,
    CommandOutputType,
    CommandResponse,
    CommandStatus,
)
from nekro_core.plugin.config import ConfigBase, ConfigError, ExtraField
from nekro_core.plugin.dynamic import PackageWanted, dynamic_import_pkg
from nekro_core.plugin.kept import PluginStore
from nekro_core.plugin.methods import SandboxMethod, SandboxMethodType
from nekro_core.plugin.plugin import NekroPlugin, NotLoaded
from nekro_core.plugin.tasks.facade import task
from nekro_core.plugin.tasks.handle import AsyncTaskHandle, WaitCancelled
from nekro_core.plugin.tasks.runner import TaskRefused, TaskRunner
from nekro_core.plugin.tasks.values import TaskCtl, TaskSignal
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
