"""Maps the commands of ``nekro`` to functions. A command imports only what it needs: together the
modules of all commands take more than a second. ``run`` is not here but in `nekro_core.app.server`.
"""

import argparse
import gc
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module

Command = Callable[[argparse.Namespace], Awaitable[int]]
"""Takes the parsed arguments and returns an exit status. May raise `SettingsError`."""

FUNCTIONS: Mapping[str, str] = {
    "accounts": "nekro_core.cli.accounts:run",
    "adapter": "nekro_core.cli.adapter_kit.command:run",
    "backup": "nekro_core.cli.backup:backup",
    "chat": "nekro_core.cli.chat:run",
    "cluster": "nekro_core.cli.cluster:run",
    "doctor": "nekro_core.cli.doctor:run",
    "documents": "nekro_core.cli.documents:run",
    "export": "nekro_core.cli.transfer:export",
    "fetch": "nekro_core.cli.fetch:run",
    "get": "nekro_core.cli.settings:get",
    "import": "nekro_core.cli.transfer:import_",
    "mcp": "nekro_core.cli.mcp:run",
    "memory": "nekro_core.cli.memory:run",
    "operator": "nekro_core.cli.operator_calls:run",
    "outbox": "nekro_core.cli.outbox:run",
    "plugin": "nekro_core.cli.plugin_kit.command:run",
    "restart": "nekro_core.cli.restart:restart",
    "restore": "nekro_core.cli.backup:restore",
    "sandbox": "nekro_core.cli.sandbox_image:run",
    "service": "nekro_core.cli.service.command:run",
    "set": "nekro_core.cli.settings:change",
    "upgrade": "nekro_core.cli.upgrade:upgrade",
}
"""The module and the name of the function of each command."""


def find_command(name: str) -> Command:
    """Import the function of a command. The garbage collector rests meanwhile, because imported
    objects are never garbage, and checking them would take a tenth of the time of the import."""
    module, _, function = FUNCTIONS[name].partition(":")
    gc.disable()
    try:
        command: Command = getattr(import_module(module), function)
    finally:
        gc.enable()
    return command
