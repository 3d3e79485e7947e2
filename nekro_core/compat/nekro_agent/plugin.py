"""The plugin class that modules under ``nekro_agent`` offer."""

from typing import ClassVar

from nekro_core.plugins.authoring.plugin import NekroPlugin


class LegacyNekroPlugin(NekroPlugin):
    """A plugin written for nekro-agent. It accepts handlers that `NekroPlugin` refuses: their first
    parameter, which is the context, may have any name, and the result of an ``AGENT`` or
    ``BEHAVIOR`` method may have any type."""

    is_lenient: ClassVar[bool] = True
