"""The plugin class that modules under ``nekro_agent`` offer."""

from typing import ClassVar

from nekro_core.plugins.authoring.plugin import NekroPlugin


class LegacyNekroPlugin(NekroPlugin):
    """A plugin written for nekro-agent, which accepts handlers that `NekroPlugin` refuses: the
    first parameter is the context whatever its name, and a result of kind ``AGENT`` or ``BEHAVIOR``
    may have any type."""

    is_lenient: ClassVar[bool] = True
